// The explorer as a widget: what it asks goes to the kernel, whose answers come back by number, to all views of the widget.

function render({ model, el }) {
  const root = document.createElement("div");
  const window70 = Math.round(0.7 * (window.outerHeight || 1e4)); // in VS Code cells are in a frame as high as all of them
  root.style.height = `min(${model.get("height")}px, 70vh, ${window70}px)`;
  el.appendChild(root);
  const waiting = new Map();
  const view = Math.random().toString(36).slice(2);
  let asked = 0;
  const answered = (message) => {
    waiting.get(message.number)?.(message.answer);
    waiting.delete(message.number);
  };
  model.on("msg:custom", answered);
  const ask = (id, time) => new Promise((resolve) => {
    const number = `${view}.${++asked}`;
    waiting.set(number, resolve);
    model.send({ number, id, time });
  });
  const shown = explore(root, JSON.parse(model.get("data")), ask);
  return () => {
    model.off("msg:custom", answered);
    shown.stop();
  };
}

export default { render };
