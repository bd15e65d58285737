(() => {
  "use strict";
  const tip = document.getElementById("tip");
  const live = document.getElementById("live");
  let current = null;
  let seen = { left: 0, top: 0 }; // where the current mark was when its tip was placed

  const hide = () => {
    if (current) current.classList.remove("current");
    current = null;
    tip.hidden = true;
    live.textContent = "";
  };

  const place = (mark) => {
    const at = mark.getBoundingClientRect();
    seen = at;
    const size = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const left = Math.min(at.left + at.width / 2 - size.width / 2, room - size.width - 4);
    const above = at.top - size.height - 8;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${above > 4 ? above : at.bottom + 8}px`;
  };

  const show = (mark, say) => {
    if (current && current !== mark) current.classList.remove("current");
    current = mark;
    mark.classList.add("current");
    tip.textContent = mark.dataset.tip;
    if (say) live.textContent = mark.dataset.tip;
    tip.hidden = false;
    place(mark);
  };

  const marked = (event) => (event.target instanceof Element ? event.target.closest("[data-tip]") : null);

  document.addEventListener("pointerover", (event) => {
    const mark = marked(event);
    if (mark) show(mark, false);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.pointerType !== "touch" && marked(event)) hide();
  });
  document.addEventListener("pointerdown", (event) => {
    const mark = marked(event);
    if (mark) show(mark, false);
    else hide();
  });
  // A tip shown by the keyboard stays; a tip shown by the pointer is hidden.
  const follow = () => {
    if (!current) return;
    const at = current.getBoundingClientRect();
    if (at.left === seen.left && at.top === seen.top) return; // a late event of an earlier scroll
    if (current.closest("svg.chart") === document.activeElement) place(current);
    else hide();
  };
  document.addEventListener("scroll", follow, { passive: true, capture: true });

  for (const chart of document.querySelectorAll("svg.chart")) {
    const marks = [...chart.querySelectorAll("[data-tip]")];
    const columns = Number(chart.dataset.columns);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    let reached = 0;
    chart.addEventListener("focus", () => {
      if (marks.length && chart.matches(":focus-visible")) requestAnimationFrame(() => show(marks[reached], true));
    });
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      if (!marks.length) return;
      if (event.key === "Escape") {
        hide();
      } else if (event.key in steps || event.key === "Home" || event.key === "End") {
        event.preventDefault();
        const next = event.key === "Home" ? 0 : event.key === "End" ? marks.length - 1 : reached + steps[event.key];
        if (next >= 0 && next < marks.length) reached = next;
        show(marks[reached], true);
      }
    });
  }
})();
