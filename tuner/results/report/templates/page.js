"use strict";
(() => {
  const { themes, drawings } = JSON.parse(document.getElementById("drawings").textContent);
  const places = [...document.querySelectorAll("[data-figure]")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const drawn = new Set();
  let printing = false;

  const draw = (place) => {
    const { data, layout } = drawings[place.dataset.figure];
    const template = themes[dark.matches && !printing ? "dark" : "light"];
    const width = printing ? { width: 660, autosize: false } : { autosize: true };
    drawn.add(place);
    return Plotly.react(place, data, { ...layout, ...width, template }, config);
  };
  const redraw = () => drawn.forEach(draw);

  // Only what comes into view is drawn: a study may have dozens of figures.
  const watcher = new IntersectionObserver(
    (entries) =>
      entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
        watcher.unobserve(target);
        draw(target);
      }),
    { rootMargin: "400px" },
  );
  places.forEach((place) => {
    place.style.minHeight = `${drawings[place.dataset.figure].layout.height}px`;
    watcher.observe(place);
  });

  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    printing = true;
    places.filter((place) => place.checkVisibility()).forEach(draw);
  });
  addEventListener("afterprint", () => {
    printing = false;
    redraw();
  });
})();
