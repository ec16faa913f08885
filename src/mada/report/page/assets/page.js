// Brings the page to life: its colours at once, debates after the first paint.
(() => {
  Theme.start(document.getElementById("theme-button"));

  function start() {
    const section = document.getElementById("debates");
    if (section !== null) Keyboard.start(Debates.start(section), document.getElementById("help-button"));
  }

  // A page in the background paints nothing, so it need not wait for that.
  if (document.hidden) setTimeout(start);
  else requestAnimationFrame(() => setTimeout(start));
})();
