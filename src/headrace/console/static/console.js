// Makes pages live that are complete without it: parts that name where they come from are fetched again,
// while the page is looked at. What a server says is put in only if it is a picture of ours.
const PERIOD_MS = 2000;

async function renew(place) {
  if (document.hidden || place.matches(":hover, :focus-within")) return;
  const answer = await fetch(place.dataset.live, { headers: { accept: "image/svg+xml" } });
  if (!answer.ok || answer.redirected) return;
  const picture = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("svg.segments");
  if (picture) place.replaceChildren(picture);
}

for (const place of document.querySelectorAll("[data-live]")) {
  const again = async () => {
    try {
      await renew(place);
    } catch {
      // The server is away: what was seen last stays, and it is asked again.
    }
    setTimeout(again, PERIOD_MS);
  };
  setTimeout(again, PERIOD_MS);
}

// A choice shows at once what it asks for.
for (const choice of document.querySelectorAll(".asks select")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
