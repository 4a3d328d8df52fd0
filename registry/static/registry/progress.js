// Keeps the panel of a running build up to date, and loads the page again when the build has ended.
(() => {
  const panel = document.querySelector("[data-refresh-url]");
  const pause = 1500;

  async function refresh() {
    try {
      const answer = await fetch(panel.dataset.refreshUrl, { cache: "no-store", redirect: "error" });
      if (answer.ok) panel.innerHTML = await answer.text();
    } catch {
      // The server may be restarting: ask again.
    }
    if (!panel.querySelector("[data-done]")) setTimeout(refresh, pause);
    else if ("reload" in panel.dataset) location.reload();
  }

  if (panel && !panel.querySelector("[data-done]")) setTimeout(refresh, pause);
})();
