// Keeps a page of the dashboard up to date: shows times as "3m 12s ago", applies the changes that
// the server sends, and says so when the daemon is lost. Without it the pages work, too.
"use strict";

(() => {
  const body = document.body;
  const says = document.getElementById("live");
  const LOST_S = 12;
  const TICK_MS = 1000;
  let ahead = (Number(body.dataset.now) || Date.now() / 1000) * 1000 - Date.now();

  // Times.

  const now = () => (Date.now() + ahead) / 1000;
  const two = (n) => String(n).padStart(2, "0");

  function span(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 60) return `${s}s`;
    if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
    return `${Math.floor(s / 86400)}d ${two(Math.floor((s % 86400) / 3600))}h`;
  }

  function clock(at, seconds) {
    const when = new Date(at * 1000);
    const time = `${two(when.getHours())}:${two(when.getMinutes())}`;
    if (!seconds) return time;
    const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} `;
    const today = when.toDateString() === new Date().toDateString();
    return `${today ? "" : day}${time}:${two(when.getSeconds())}`;
  }

  function put(one, text) {
    if (one.textContent !== text) one.textContent = text;
  }

  function showTimes(root) {
    const at = now();
    for (const one of root.querySelectorAll("[data-print]")) one.hidden = false;
    for (const one of root.querySelectorAll("[data-ago]")) put(one, span(at - one.dataset.ago));
    for (const one of root.querySelectorAll("[data-until]")) {
      put(one, span(one.dataset.until - at));
    }
  }

  function showClocks(root) {
    for (const one of root.querySelectorAll("[data-clock]")) {
      put(one, clock(Number(one.dataset.clock), one.localName === "time"));
    }
  }

  // Changes.

  const waiting = new Map();

  function isInUse(element) {
    const focused = document.activeElement;
    return element.contains(focused) && /^(input|select|textarea)$/.test(focused.localName);
  }

  function keepingFocus(element, change) {
    const focused = document.activeElement;
    const had = element.contains(focused) ? focused.getAttribute("href") : null;
    const place = change();
    if (had === null) return;
    for (const link of place.querySelectorAll("a[href]")) {
      if (link.getAttribute("href") === had) { link.focus({ preventScroll: true }); return; }
    }
  }

  function fill(id, html) {
    const element = document.getElementById(id);
    if (element === null) return;
    if (isInUse(element)) { waiting.set(id, html); return; }
    waiting.delete(id);
    keepingFocus(element, () => { element.innerHTML = html; return element; });
    showTimes(element);
    showClocks(element);
  }

  document.addEventListener("focusout", () => setTimeout(() => {
    for (const [id, html] of [...waiting]) fill(id, html);
  }, 0));

  function rowOf(html) {
    const frame = document.createElement("template");
    frame.innerHTML = html;
    return frame.content.firstElementChild;
  }

  function changeRows(id, told) {
    const list = document.getElementById(id);
    if (list === null) return;
    for (const gone of told.gone) document.getElementById(gone)?.remove();
    for (const [key, html, before] of told.put) {
      const row = rowOf(html);
      showTimes(row);
      showClocks(row);
      const known = document.getElementById(key);
      if (known !== null) {
        keepingFocus(known, () => { known.replaceWith(row); return row; });
      } else {
        const after = before === null ? null : document.getElementById(before);
        if (after === null) list.prepend(row); else after.after(row);
      }
    }
    if (told.order !== undefined) {
      for (const key of told.order) {
        const row = document.getElementById(key);
        if (row !== null) list.append(row);
      }
    }
  }

  function apply(told) {
    if (told.whole) { location.reload(); return; }
    for (const [id, html] of Object.entries(told.html)) fill(id, html);
    for (const [id, rows] of Object.entries(told.rows)) changeRows(id, rows);
  }

  // The stream.

  let heardAt = Date.now();
  let lostAt = null;
  let decidedAt = null;
  let later = false;

  function say(kind, text) {
    if (says.className !== `live ${kind}`) says.className = `live ${kind}`;
    put(says, text);
    document.documentElement.dataset.state = kind || "live";
  }

  function tell() {
    const silent = (Date.now() - heardAt) / 1000;
    if (silent > (later ? 45 : LOST_S)) {
      lostAt ??= heardAt;
      say("lost", "The daemon does not answer. What you see is from "
        + `${clock(lostAt / 1000, true)}, and may be wrong now.`);
      return;
    }
    lostAt = null;
    const age = decidedAt === null ? 0 : (Date.now() - decidedAt) / 1000;
    if (age > Number(body.dataset.oldAfter)) {
      say("old", "The daemon answers, but decided nothing for a long time: look at its log.");
    } else {
      say("", later ? "Live, every 15 s: there are many viewers." : "Live.");
    }
  }

  function listen() {
    const query = new URLSearchParams({ of: body.dataset.live, version: body.dataset.version });
    const stream = new EventSource(`/live?${query}`);
    stream.addEventListener("beat", (event) => {
      const told = JSON.parse(event.data);
      heardAt = Date.now();
      ahead = told.now * 1000 - heardAt;
      decidedAt = heardAt - told.age * 1000;
      later = told.later;
      if (event.lastEventId) body.dataset.version = event.lastEventId;
      tell();
    });
    stream.addEventListener("change", (event) => {
      heardAt = Date.now();
      if (event.lastEventId) body.dataset.version = event.lastEventId;
      apply(JSON.parse(event.data));
    });
    stream.addEventListener("error", () => {
      if (stream.readyState !== EventSource.CLOSED) return;
      // The browser gave up: an answer that is no stream. Perhaps the session has ended.
      setTimeout(async () => {
        try {
          const answer = await fetch("/live?check=1", { method: "HEAD" });
          if (answer.status === 401) { location.reload(); return; }
        } catch { /* It is lost; `tell` says so. */ }
        listen();
      }, 2000);
    });
    addEventListener("pagehide", () => stream.close(), { once: true });
  }

  // The keyboard: `/` goes to the search of the page.

  document.addEventListener("keydown", (event) => {
    const plain = !event.ctrlKey && !event.altKey && !event.metaKey;
    if (event.key !== "/" || !plain || /^(input|select|textarea)$/.test(event.target.localName)) return;
    const search = document.querySelector("input[type=search]");
    if (search === null) return;
    event.preventDefault();
    search.select();
    search.focus();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-print]")) print();
  });

  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  showTimes(document);
  showClocks(document);
  setInterval(() => showTimes(document), TICK_MS);
  if (body.dataset.live !== undefined) {
    setInterval(tell, TICK_MS);
    tell();
    listen();
  }
})();
