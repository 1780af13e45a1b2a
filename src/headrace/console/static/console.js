// Makes pages live that are complete without it: a part that names where it comes from is fetched again while
// the page is looked at, and nobody points into it or has paused it. Of the answer only that part is taken.
const PERIOD_MS = 2000;
const REST_SHARE = 20; // A server that takes long to answer is asked as much less often.

async function renew(place) {
  const answer = await fetch(place.dataset.live);
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const part = page.querySelector(place.dataset.part);
  if (part) place.replaceChildren(part);
}

function pauseButton(place) {
  const button = document.createElement("button");
  button.type = "button";
  const show = () => (button.textContent = place.dataset.paused ? "Go on" : "Pause");
  button.addEventListener("click", () => {
    if (place.dataset.paused) delete place.dataset.paused;
    else place.dataset.paused = "yes";
    show();
  });
  show();
  return button;
}

for (const place of document.querySelectorAll("[data-live]")) {
  const again = async () => {
    const begun = performance.now();
    const left = document.hidden || place.dataset.paused || place.matches(":hover, :focus-within");
    try {
      if (!left) await renew(place);
    } catch {
      // The server is away: what was seen last stays, and it is asked again.
    }
    setTimeout(again, Math.max(PERIOD_MS, REST_SHARE * (performance.now() - begun)));
  };
  setTimeout(again, PERIOD_MS);
  if (place.dataset.pause) document.querySelector(place.dataset.pause)?.append(pauseButton(place));
}

// A choice shows at once what it asks for.
for (const choice of document.querySelectorAll(".asks select")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
