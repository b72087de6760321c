"use strict";
// Shows the parts that need a script, filters operations, opens the operation of a link, and sends forms.
const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
const filter = document.getElementById("filter");
filter.hidden = false;
all("form.try").forEach((form) => { form.hidden = false; });
const menu = document.getElementById("menu");
if (window.matchMedia("(max-width: 800px)").matches) menu.open = false;

filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  all("[data-find]").forEach((entry) => {
    entry.hidden = !words.every((word) => entry.dataset.find.includes(word));
  });
  all("section.group").forEach((group) => {
    group.hidden = !all("[data-find]", group).some((entry) => !entry.hidden);
  });
});

const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const part = target && target.closest("details");
  if (!part) return;
  part.open = true;
  part.scrollIntoView();
};
window.addEventListener("hashchange", openTarget);
openTarget();

// The address of a form; null if it leaves the gateway or a part of the path is missing.
const addressOf = (form) => {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const input of all("input[data-in]", form)) {
    const { in: side, name } = input.dataset;
    if (side === "path") {
      path = path.split("{" + name + "}").join(encodeURIComponent(input.value));
    } else if (side === "query" && input.value !== "") {
      const values = input.dataset.repeat ? input.value.split(",") : [input.value];
      values.forEach((value) => query.append(name, value));
    }
  }
  const text = query.toString();
  const url = new URL(location.origin + "/" + path.replace(/^\/+/, "") + (text ? "?" + text : ""));
  return url.origin === location.origin ? url : null;
};

const show = (form, status, fields, body) => {
  const result = form.querySelector(".result");
  result.hidden = false;
  result.querySelector(".status").textContent = status;
  result.querySelector(".fields").textContent = fields;
  result.querySelector(".answer").textContent = body;
};

const pretty = (text) => {
  const limit = 200000;
  const short = text.length > limit ? text.slice(0, limit) + "\n… (" + text.length + " characters)" : text;
  try {
    return text.length > limit ? short : JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return short;
  }
};

const send = async (form) => {
  const url = addressOf(form);
  if (!url) return show(form, "The address is not one of this gateway.", "", "");
  const headers = new Headers();
  all('input[data-in="header"]', form).forEach((input) => {
    if (input.value !== "") headers.set(input.dataset.name, input.value);
  });
  const method = form.dataset.method;
  const area = form.querySelector("textarea");
  const body = area && method !== "GET" && method !== "HEAD" ? area.value : undefined;
  if (body !== undefined) headers.set("Content-Type", form.querySelector("select.media").value);
  const start = performance.now();
  const response = await fetch(url, { method, headers, body, redirect: "manual" });
  const text = await response.text();
  const time = Math.round(performance.now() - start);
  const status = response.type === "opaqueredirect" ? "redirect" : response.status + " " + response.statusText;
  const fields = Array.from(response.headers, ([name, value]) => name + ": " + value).join("\n");
  show(form, status + " · " + time + " ms · " + method + " " + url.pathname + url.search, fields, pretty(text));
};

all("form.try").forEach((form) => form.addEventListener("submit", (event) => {
  event.preventDefault();
  send(form).catch((error) => show(form, "The request failed: " + error.message, "", ""));
}));
