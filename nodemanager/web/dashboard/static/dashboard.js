// Keeps a page of the dashboard up to date: shows times as "3m 12s ago", asks for the page's
// newest version and changes what is other in it, and says so when the daemon is lost. Without it the pages work, too.
"use strict";

(() => {
  const body = document.body;
  const says = document.getElementById("live");
  const LOST_S = 12;
  const EVERY_MS = 2000;
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

  const isSame = (one, other) => one.nodeName === other.nodeName && one.id === other.id;

  // Makes `old` as `fresh` is, and leaves alone whatever is the same: the focus, a text half typed.
  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const stay = new Set([...fresh.children].map((one) => one.id));
    const known = new Map([...old.children].map((one) => [one.id, one]));
    let at = old.firstChild;
    const skipGone = () => {
      while (at?.id && !stay.has(at.id)) { const gone = at; at = at.nextSibling; gone.remove(); }
    };
    for (const one of [...fresh.childNodes]) {
      skipGone();
      const match = one.id ? known.get(one.id) : at && isSame(at, one) ? at : null;
      if (!match) { old.insertBefore(one, at); continue; }
      if (match === at) at = at.nextSibling; else old.insertBefore(match, at);
      morph(match, one);
    }
    while (at !== null) { const gone = at; at = at.nextSibling; gone.remove(); }
  }

  function show(html) {
    const page = document.getElementById("page");
    const fresh = page.cloneNode(false);
    const focused = document.activeElement;
    fresh.innerHTML = html;
    showTimes(fresh);
    showClocks(fresh);
    morph(page, fresh);
    if (focused.isConnected) focused.focus({ preventScroll: true });
  }

  // Asking.

  let heardAt = Date.now();
  let decidedAt = null;

  function say(kind, text) {
    if (says.className !== `live ${kind}`) says.className = `live ${kind}`;
    put(says, text);
    document.documentElement.dataset.state = kind || "live";
  }

  function tell() {
    if ((Date.now() - heardAt) / 1000 > LOST_S) {
      say("lost", "The daemon does not answer. What you see is from "
        + `${clock(heardAt / 1000, true)}, and may be wrong now.`);
      return;
    }
    const age = decidedAt === null ? 0 : (Date.now() - decidedAt) / 1000;
    if (age > Number(body.dataset.oldAfter)) {
      say("old", "The daemon answers, but decided nothing for a long time: look at its log.");
    } else {
      say("", decidedAt === null ? "" : "Live.");
    }
  }

  async function ask() {
    const query = new URLSearchParams({ of: body.dataset.live, version: body.dataset.version });
    try {
      const answer = await fetch(`/live?${query}`);
      // Signed out, or what the page is about is gone: the page itself says so.
      if (answer.status === 401 || answer.status === 410) { location.reload(); return; }
      if (answer.ok) hear(answer.headers, await answer.text());
    } catch { /* It is lost; `tell` says so. */ }
    setTimeout(ask, EVERY_MS);
  }

  function hear(told, html) {
    heardAt = Date.now();
    ahead = Number(told.get("Now")) * 1000 - heardAt;
    decidedAt = heardAt - Number(told.get("Decided-Ago")) * 1000;
    if (told.has("Version")) { body.dataset.version = told.get("Version"); show(html); }
    tell();
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
    ask();
  }
})();
