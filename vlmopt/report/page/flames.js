"use strict";
// A flame graph by mouse, finger and key: what a frame is, and the frames that it calls as wide as the page.
(() => {
  const LETTER = 6.7; // width of a letter, in units of the picture
  const NS = "http://www.w3.org/2000/svg";

  const read = (group) => {
    const rect = group.querySelector("rect");
    const [x, y, width] = ["x", "y", "width"].map((name) => Number(rect.getAttribute(name)));
    const tip = group.querySelector("title").textContent;
    return { group, rect, x, y, width, tip, name: tip.replace(/, [\d.,]+ ms, [\d.]+%$/, "") };
  };

  const label = (frame, x, width) => {
    const short = frame.name.split(":").pop();
    const letters = Math.floor((width - 4) / LETTER);
    let text = [frame.name, short].find((each) => each.length <= letters) ?? "";
    if (!text && letters >= 4) text = short.slice(0, letters - 1) + "…";
    let element = frame.group.querySelector("text");
    if (!element) {
      element = frame.group.appendChild(document.createElementNS(NS, "text"));
      element.setAttribute("y", frame.y + 12);
    }
    element.setAttribute("x", x + 3);
    element.textContent = text;
  };

  const prepare = (box) => {
    const frames = [...box.querySelectorAll("g")].map(read);
    if (!frames.length) return;
    const told = box.nextElementSibling;
    const all = frames[0];
    let current = all;

    const inside = (frame, outer) => frame.x >= outer.x - 0.02 && frame.x + frame.width <= outer.x + outer.width + 0.02;
    const choose = (frame) => {
      if (!frame || frame.group.hasAttribute("hidden")) return;
      current.group.classList.remove("chosen");
      frame.group.classList.add("chosen");
      current = frame;
      told.textContent = frame.tip;
    };
    const enlarge = (one) => {
      const scale = all.width / one.width;
      for (const frame of frames) {
        const calls = frame.y < one.y && inside(one, frame);
        const shown = calls || inside(frame, one);
        frame.group.toggleAttribute("hidden", !shown);
        if (!shown) continue;
        const x = calls ? all.x : all.x + (frame.x - one.x) * scale;
        const width = calls ? all.width : frame.width * scale;
        frame.rect.setAttribute("x", x);
        frame.rect.setAttribute("width", width);
        label(frame, x, width);
      }
    };
    const rows = [...new Set(frames.map((frame) => frame.y))].sort((a, b) => a - b);
    const row = (step) => frames.filter((frame) => frame.y === rows[rows.indexOf(current.y) + step]);
    const beside = (step) => {
      const line = row(0).filter((frame) => !frame.group.hasAttribute("hidden")).sort((a, b) => a.x - b.x);
      return line[line.indexOf(current) + step];
    };
    const keys = {
      ArrowDown: () => choose(row(1).find((frame) => inside(frame, current))),
      ArrowUp: () => choose(row(-1).find((frame) => inside(current, frame))),
      ArrowLeft: () => choose(beside(-1)),
      ArrowRight: () => choose(beside(1)),
      Enter: () => enlarge(current),
      Escape: () => { enlarge(all); choose(all); },
    };
    box.addEventListener("keydown", (event) => {
      if (!Object.hasOwn(keys, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    box.addEventListener("click", (event) => {
      const frame = frames.find((each) => each.group === event.target.closest("g"));
      if (!frame) return;
      choose(frame);
      enlarge(frame);
    });
  };
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".flame").forEach(prepare));
})();
