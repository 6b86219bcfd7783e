// Values under the pointer. The page is complete without it.
"use strict";
(() => {
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  };
  const shown = (value) =>
    value === null || value === undefined ? "–" : value >= 100 ? value.toFixed(0) : String(value);
  // The values stand in the element with their charts: a page may have several reports.
  for (const data of document.querySelectorAll("script.series")) {
    const contestants = JSON.parse(data.textContent);
    for (const figure of data.parentElement.querySelectorAll("figure.chart")) {
      const plot = figure.querySelector(".plot");
      if (!plot) continue;
      const field = figure.dataset.field;
      const seconds = Number(plot.dataset.seconds);
      const cursor = element("div", "cursor", "");
      const tip = element("div", "tip", "");
      const hide = () => { cursor.remove(); tip.remove(); };
      plot.addEventListener("pointerleave", hide);
      plot.addEventListener("pointermove", (event) => {
        const box = plot.getBoundingClientRect();
        const fraction = (event.clientX - box.left) / box.width;
        const second = Math.floor(fraction * seconds);
        if (second < 0 || second >= seconds) { hide(); return; }
        tip.replaceChildren(element("div", "", `second ${second}`));
        for (const contestant of contestants) {
          const value = contestant.fields[field][second];
          tip.append(element("div", contestant.class, `${contestant.name}: ${shown(value)}`));
        }
        const at = ((second + 0.5) / seconds) * 100;
        cursor.style.left = `${at}%`;
        // On the side with more room.
        tip.style.left = fraction < 0.5 ? `calc(${at}% + 8px)` : "auto";
        tip.style.right = fraction < 0.5 ? "auto" : `calc(${100 - at}% + 8px)`;
        plot.append(cursor, tip);
      });
    }
  }
})();
