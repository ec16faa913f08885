// Brings the page to life: its colours at once, charts and debates after the first paint.
(() => {
  Theme.start(document.getElementById("theme-button"));

  function drawCharts() {
    const waiting = JSON.parse(document.getElementById("charts").textContent);
    for (const figure of document.querySelectorAll("figure.chart")) {
      const place = waiting.findIndex(({ name }) => name === figure.dataset.chart);
      if (place === -1) continue;
      const [data] = waiting.splice(place, 1);
      try {
        Charts.draw(figure, data);
      } catch (error) {
        // One chart that fails leaves the others, and the debates, as they are.
        console.error(`the chart ${data.name} could not be drawn`, error);
      }
    }
  }

  function start() {
    drawCharts();
    const section = document.getElementById("debates");
    if (section !== null) Keyboard.start(Debates.start(section), document.getElementById("help-button"));
  }

  // A page in the background paints nothing, so it need not wait for that.
  if (document.hidden) setTimeout(start);
  else requestAnimationFrame(() => setTimeout(start));
})();
