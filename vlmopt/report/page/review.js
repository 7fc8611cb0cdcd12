"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  const kept = {
    get(name) { try { return localStorage.getItem("vlmopt-" + name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem("vlmopt-" + name, value); } catch { /* a file may not keep */ } },
  };
  const setTheme = (theme) => {
    if (theme === "system") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
  };
  let theme = themes.includes(kept.get("theme")) ? kept.get("theme") : "system";
  setTheme(theme); // before anything is drawn

  document.addEventListener("DOMContentLoaded", () => {
    const byId = (id) => document.getElementById(id);
    const all = (selector, within = document) => [...within.querySelectorAll(selector)];
    const shown = (element) => element.checkVisibility();
    const help = byId("help");
    const single = byId("single");
    all("[data-script]").forEach((element) => { element.hidden = false; });

    const actions = {
      theme() {
        theme = themes[(themes.indexOf(theme) + 1) % themes.length];
        setTheme(theme);
        kept.set("theme", theme);
        byId("theme").textContent = "Theme: " + theme;
      },
      layout(unified = !root.classList.contains("unified")) {
        root.classList.toggle("unified", unified);
        kept.set("layout", unified ? "unified" : "split");
        byId("layout").textContent = unified ? "Side by side" : "Unified";
      },
      files() {
        const files = all("details.file");
        const open = files.some((file) => !file.open);
        files.forEach((file) => { file.open = open; });
        byId("files-button").textContent = open ? "Close all files" : "Open all files";
      },
      help() { if (help.open) help.close(); else help.showModal(); },
      go(selector, step) {
        const stops = all(selector).filter(shown);
        const edge = parseFloat(getComputedStyle(root).scrollPaddingTop) + 2;
        const at = stops.indexOf(document.activeElement);
        const tops = stops.map((stop) => stop.getBoundingClientRect().top);
        let next = at + step;
        if (at < 0) next = step > 0 ? tops.findIndex((top) => top > edge) : tops.findLastIndex((top) => top < edge - 4);
        const stop = stops[next];
        if (!stop) return;
        stop.focus({ preventScroll: true });
        stop.scrollIntoView({ block: "start" });
      },
    };
    const keys = {
      j: () => actions.go("h2, h3", 1),
      k: () => actions.go("h2, h3", -1),
      n: () => actions.go(".where", 1),
      p: () => actions.go(".where", -1),
      u: () => actions.layout(),
      o: () => actions.files(),
      t: () => actions.theme(),
      "?": () => actions.help(),
    };

    byId("theme").textContent = "Theme: " + theme;
    actions.layout(kept.get("layout") === "unified");
    single.checked = kept.get("single") !== "off";
    byId("theme").addEventListener("click", actions.theme);
    byId("layout").addEventListener("click", () => actions.layout());
    byId("files-button").addEventListener("click", actions.files);
    byId("keys").addEventListener("click", actions.help);
    byId("close").addEventListener("click", () => help.close());
    single.addEventListener("change", () => kept.set("single", single.checked ? "on" : "off"));

    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !single.checked) return;
      if (help.open && event.key !== "?") return;
      const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
      if (act) { event.preventDefault(); act(); }
    });

    // What is selected with the mouse is of one side alone.
    document.addEventListener("mousedown", (event) => {
      const block = event.target.closest?.(".block");
      if (!block) return;
      const side = event.target.closest(".old") ? "old" : "new";
      const file = event.target.closest(".file");
      all("[data-side]").forEach((other) => other.removeAttribute("data-side"));
      if (!root.classList.contains("unified")) file?.setAttribute("data-side", side);
    });

    // A link into a closed file opens it; paper gets every file that is open or changed.
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = all("details.file:not([open]):not(.fresh), details.more:not([open])");
      closed.forEach((each) => { each.open = true; });
    });
    addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
  });
})();
