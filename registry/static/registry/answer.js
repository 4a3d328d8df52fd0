// Asks for a model's answer once the passages are shown, and lets a person cancel it.
(() => {
  const place = document.querySelector("[data-answer-url]");
  const waiting = place?.querySelector("[data-waiting]");
  if (!waiting) return;
  const form = document.querySelector("form [name=query]").form;
  const token = crypto.randomUUID?.() ?? "";
  const typed = new FormData(form);
  typed.set("token", token);
  const url = place.dataset.answerUrl;

  function cancel() {
    const said = new FormData();
    said.set("csrfmiddlewaretoken", typed.get("csrfmiddlewaretoken"));
    said.set("token", token);
    said.set("cancel", "1");
    // Sent also when the page is being left.
    navigator.sendBeacon(url, said);
  }

  async function ask() {
    waiting.hidden = false;
    let text;
    try {
      const answer = await fetch(url, { method: "POST", body: typed });
      text = answer.ok ? await answer.text() : "";
    } catch {
      text = "";
    }
    done = true;
    if (text) place.innerHTML = text;
    else waiting.textContent = "No answer came. The passages are shown all the same.";
  }

  let done = false;
  waiting.querySelector("[data-cancel]").addEventListener("click", cancel);
  addEventListener("pagehide", () => done || cancel());
  ask();
})();
