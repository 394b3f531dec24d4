/* Pages opened from the file system may not start workers, and the site's search runs in one. So there its script runs in a
   hidden frame of the page, which takes and gives messages as a worker does. Only what the search needs. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      });
      inside.importScripts = (...urls) => Promise.all(urls.map((source) => this.load(inside, source)));
      this.ready = this.load(inside, new URL(url, document.baseURI).href).then(() => inside);
    }
    load(inside, source) {
      return new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: source, onload: resolve, onerror: reject });
        inside.document.head.append(script);
      });
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
