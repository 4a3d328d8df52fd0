// Keeps the panel of a running build up to date, and loads the page again when a build has ended:
// then the rest of the page has changed too.
(() => {
  const panel = document.querySelector("[data-refresh-url]");
  const pause = 1500;
  const snapshot = () => panel.querySelector("[data-snapshot]")?.dataset.snapshot;
  const before = panel && snapshot();

  async function refresh() {
    try {
      const answer = await fetch(panel.dataset.refreshUrl, { cache: "no-store", redirect: "error" });
      if (answer.ok) panel.innerHTML = await answer.text();
    } catch {
      // The server may be restarting: ask again.
    }
    const done = panel.querySelector("[data-done]");
    if ("reload" in panel.dataset && (done || snapshot() !== before)) location.reload();
    else if (!done) setTimeout(refresh, pause);
  }

  if (panel && !panel.querySelector("[data-done]")) setTimeout(refresh, pause);
})();
