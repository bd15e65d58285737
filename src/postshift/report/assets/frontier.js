(() => {
  "use strict";
  const section = document.getElementById("frontier");
  if (!section) return;
  const points = JSON.parse(section.dataset.points);
  const slider = document.getElementById("frontier-bound");
  const shown = [...section.querySelectorAll("[data-shows]")];
  const cells = [...section.querySelectorAll("#frontier-matrix td")];
  const marks = [...section.querySelectorAll("[data-point]")];

  const show = () => {
    const place = Number(slider.value);
    const point = points[place];
    for (const each of shown) each.textContent = point[each.dataset.shows];
    const numbers = point.matrix.flat();
    cells.forEach((cell, k) => (cell.textContent = numbers[k]));
    marks.forEach((mark) => mark.classList.toggle("chosen", Number(mark.dataset.point) === place));
    slider.setAttribute("aria-valuetext", point.bound);
  };

  slider.addEventListener("input", show);
  for (const mark of marks) {
    mark.addEventListener("click", () => {
      slider.value = mark.dataset.point;
      show();
    });
  }
  show();
})();
