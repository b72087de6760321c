/**
 * Lets the search of the theme work in pages that are opened from a folder, where browsers start no worker: the worker's
 * script runs in a hidden frame instead, and messages are passed as events.
 */
(() => {
  if (window.location.protocol !== 'file:') return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement('iframe');
      frame.hidden = true;
      frame.title = 'search';
      document.body.append(frame);
      const inner = frame.contentDocument;
      inner.open();
      inner.write('<!doctype html><title>search</title><body></body>');
      inner.close();
      this.frame = frame;
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent('message', { data }));
      const load = (source) =>
        new Promise((loaded, failed) => {
          const script = inner.createElement('script');
          script.src = source;
          script.onload = loaded;
          script.onerror = () => failed(new Error(`cannot load ${source}`));
          inner.body.append(script);
        });
      this.inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      // The address of the page, not of the frame, is the base of a relative one.
      this.ready = load(new URL(url, document.baseURI).href);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent('message', { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }

  // The worker's script looks for this name to learn that it runs in a frame.
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
