// The owner's page: logs in, asks for the summary every two seconds, and shows what is new.
// Texts of others (names, titles, queries) are put into the page as text only, never as HTML.
(() => {
  "use strict";
  const EVERY = 2000; // milliseconds between two requests
  const PATIENCE = 10000; // after which a request counts as lost
  const HISTORY = 5000; // lines of the log that the chart shows at most
  const SHOWN = 50; // answers in the table
  const KEPT = "postshift-owner"; // the token in the storage of this tab
  const FORM = /^ps[lo]_[0-9a-f]{8}_[\w-]{43}$/;
  const REFUSED = {
    no_token: "Type the owner’s token.",
    unknown_token: "This token is not known here. Copy all of it, without spaces.",
    wrong_scope: "This is a learner’s token. This page needs the owner’s.",
    expired_token: "This token expired. Create another one: postshift oracle token create DIR --name NAME --scope owner",
    revoked_token: "This token was revoked. Create another one: postshift oracle token create DIR --name NAME --scope owner",
  };
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);

  let token = null;
  let turn = 0; // rises with every poll, log-in and log-out: responses to earlier ones are dropped
  let timer = null;
  let history = []; // lines of the log, the newest first
  let latest = null; // the last summary
  let reached = null; // when it came
  let drawn = {}; // what each table shows

  // -- requests -----------------------------------------------------------------------------------

  class Refusal extends Error {
    constructor(status, code, message) {
      super(message);
      this.status = status;
      this.code = code;
    }
  }

  const ask = async (path) => {
    const response = await fetch(path, {
      headers: { Authorization: `Bearer ${token}` },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE),
    });
    if (response.ok) return response.json();
    const body = await response.json().catch(() => null);
    const error = (body && body.error) || { code: "", message: `HTTP ${response.status}` };
    throw new Refusal(response.status, error.code, error.message);
  };

  // Returns the history with the lines that are new; asks for those that the summary leaves out.
  const extended = async (lines) => {
    const same = (line) => history.some((old) => old.number === line.number && old.time === line.time && old.text === line.text);
    const known = history.length > 0 && lines.every((line) => line.number > history[0].number || same(line)) ? history : [];
    const last = known.length ? known[0].number : 0;
    const found = [...lines];
    while (found.length && found.length < HISTORY && found.at(-1).number > last + 1) {
      const more = await ask(`v1/owner/log?limit=1000&before=${found.at(-1).number}`);
      if (!more.length) break;
      found.push(...more);
    }
    return [...found.filter((line) => line.number > last), ...known].slice(0, HISTORY);
  };

  const poll = async () => {
    const mine = (turn += 1);
    clearTimeout(timer);
    try {
      const summary = await ask("v1/owner/summary");
      if (mine !== turn) return;
      const lines = await extended(summary.lines);
      if (mine !== turn) return;
      const before = latest && history.length ? history[0].number : null;
      [latest, history, reached] = [summary, lines, new Date()];
      keep();
      show();
      if (before !== null) announce(history.filter((line) => line.number > before));
    } catch (error) {
      if (mine !== turn) return;
      if (error instanceof Refusal && [401, 403].includes(error.status)) {
        leave(REFUSED[error.code] || error.message);
        return;
      }
      missed(error);
    }
    timer = setTimeout(poll, EVERY);
  };

  // -- logging in and out --------------------------------------------------------------------------

  const keep = () => {
    try {
      sessionStorage.setItem(KEPT, token);
    } catch {
      // The browser keeps nothing: the token is in memory only.
    }
  };

  const forget = () => {
    try {
      sessionStorage.removeItem(KEPT);
    } catch {
      // It kept nothing.
    }
  };

  const kept = () => {
    try {
      return sessionStorage.getItem(KEPT);
    } catch {
      return null;
    }
  };

  const enter = (given) => {
    token = given;
    byId("refused").textContent = "";
    poll();
  };

  const leave = (message) => {
    turn += 1;
    clearTimeout(timer);
    forget();
    [token, latest, reached, history, drawn] = [null, null, null, [], {}];
    for (const each of document.querySelectorAll("[data-shows]:not(th)")) each.textContent = "";
    for (const each of document.querySelectorAll("tbody")) each.replaceChildren();
    byId("chart").replaceChildren();
    byId("title").textContent = "The owner’s page";
    byId("live").textContent = "";
    document.title = "postshift oracle";
    byId("view").hidden = byId("session").hidden = byId("trouble").hidden = true;
    byId("login").hidden = false;
    byId("refused").textContent = message;
    byId("token").focus();
  };

  const missed = (error) => {
    const why = error instanceof Refusal ? `The server refuses: ${error.message}.` : "The server cannot be reached.";
    const stale = reached ? ` What you see is from ${clock(reached)} UTC.` : "";
    const text = `${why}${stale} This page tries again every ${EVERY / 1000} seconds.`;
    if (byId("trouble").hidden || byId("trouble").textContent !== text) byId("trouble").textContent = text;
    byId("trouble").hidden = false;
    badge(byId("checked"), "not connected", "bad");
  };

  // -- words -----------------------------------------------------------------------------------------

  const isPrivate = () => latest.about.mode === "private";
  const number = (value, digits = 0) => value.toLocaleString("en", { maximumFractionDigits: digits });
  const amount = (units) => (isPrivate() ? number(units / 1e6, 6) : number(units));
  const inWords = (units) => (isPrivate() ? `rho ${amount(units)}` : `${amount(units)} ${units === 1 ? "query" : "queries"}`);
  const epsilon = (value) => (value === 0 ? "0" : value < 0.1 ? value.toPrecision(2) : value.toFixed(2));
  const percent = (share) => `${number(100 * share, 1)} %`;
  const listed = (names) => {
    const some = names.slice(0, 12).join(", ");
    return names.length > 12 ? `${some}, ... (${number(names.length)})` : some || "none";
  };
  const iso = (date) => date.toISOString();
  const clock = (date) => iso(date).slice(11, 19);
  const stamp = (text, length = 19) => iso(new Date(text)).slice(0, length).replace("T", " ");
  const nameOf = (id) => {
    const found = latest.tokens.find((each) => each.id === id);
    return found ? found.name : id || "none";
  };

  const badge = (element, text, tone) => {
    element.className = `badge ${tone}`;
    if (element.textContent !== text) element.textContent = text;
  };

  const put = (name, text) => {
    for (const each of document.querySelectorAll(`[data-shows="${name}"]`)) {
      if (each.textContent !== text) each.textContent = text;
    }
  };

  const announce = (lines) => {
    const asked = lines.filter((line) => line.event === "answer");
    if (!asked.length) return;
    const [first] = asked;
    const what = asked.length > 1 ? `${asked.length} new answers, the last` : "New answer";
    byId("live").textContent = `${what} for ${nameOf(first.token)}: ${first.text}. Left: ${inWords(latest.budget.left)}.`;
  };

  // -- what is shown -----------------------------------------------------------------------------------

  const show = () => {
    byId("trouble").hidden = true;
    const opened = byId("view").hidden;
    byId("login").hidden = true;
    byId("view").hidden = byId("session").hidden = false;
    byId("token").value = "";
    badge(byId("checked"), `live, ${clock(reached)} UTC`, "good");
    showAbout(latest.about);
    showBudget(latest.budget);
    showRisk(latest.budget);
    showAnswers();
    showTokens();
    showChart();
    if (opened) byId("title").focus({ preventScroll: true });
  };

  const showAbout = (about) => {
    if (byId("title").textContent !== about.title) byId("title").textContent = about.title;
    document.title = `${about.title} · postshift oracle`;
    put("metric", about.metric_name);
    put("mode", isPrivate() ? "private: counts with noise" : "trusted: exact answers");
    put("kinds", listed(about.kinds));
    put("rows", number(about.rows));
    put("classes", listed(about.classes));
    put("groups", listed(about.groups));
  };

  const showBudget = (budget) => {
    for (const name of ["spent", "left", "total"]) {
      put(name, amount(budget[name]));
      put(`${name}-too`, isPrivate() ? `epsilon ${epsilon(budget[`${name}_epsilon`])}` : "");
    }
    put("unit", isPrivate() ? "rho" : "queries");
    put("answers", number(budget.answers));
    const bar = byId("bar");
    bar.max = Math.max(budget.total, 1);
    bar.value = Math.min(budget.spent, budget.total);
    const part = `${percent(budget.spent / Math.max(budget.total, 1))} of the budget is spent.`;
    const unit = ` Costs in rho (zCDP) add up. Each epsilon is that of its rho at delta ${number(budget.delta || 0, 12)}; epsilons do not add up.`;
    put("budget-note", isPrivate() ? part + unit : part);
  };

  const showRisk = (budget) => {
    const mark = document.querySelector('[data-shows="risk-badge"]');
    if (isPrivate()) {
      badge(mark, `a guess about a row is right in at most about ${percent(budget.attack_bound)} of cases`, "");
      put("risk", `Whatever is asked, and however often: a guess between two equally likely values of one row’s label or group is right in at most about ${percent(budget.attack_bound)} of cases.`);
      put("risk-detail", `Without any answer, such a guess is right in 50 % of cases. The bound is for the whole budget, all tokens together.`);
    } else {
      badge(mark, "warning: exact answers give labels away", "warn");
      put("risk", "Exact answers give labels away. A learner who wants to can read the label or the group of single rows from a few queries.");
      put("risk-detail", "A budget of queries only slows this down. Give tokens only to those whom you would show the labels.");
    }
  };

  // A table shows rows of cells: {text, kind, time, extra}. It is drawn again only if it changed.
  const fill = (id, rows, nothing) => {
    const now = JSON.stringify([rows, latest.about.mode]);
    if (drawn[id] === now) return;
    const old = drawn[id] ? new Set(JSON.parse(drawn[id])[0].map((row) => row.key)) : null;
    drawn[id] = now;
    const heads = [...byId(id).querySelectorAll("thead th")].map((head) => head.textContent);
    byId(id).querySelector("tbody").replaceChildren(
      ...rows.map((row) => {
        const line = element("tr", { role: "row" });
        if (old && !old.has(row.key)) line.className = "new";
        line.append(...row.cells.map((cell, k) => cellOf(cell, heads[k])));
        return line;
      }),
      ...(rows.length ? [] : [emptyRow(heads.length, nothing)]),
    );
  };

  const cellOf = (cell, head) => {
    const made = element(cell.head ? "th" : "td", { role: cell.head ? "rowheader" : "cell", "data-label": head });
    if (cell.head) made.scope = "row";
    if (cell.kind) made.className = cell.kind;
    const content = element("span", {}, cell.text);
    for (const [text, name] of cell.extra || []) content.append(" ", element("span", { class: name }, text));
    made.append(content);
    return made;
  };

  const emptyRow = (width, text) => {
    const row = element("tr", { role: "row" });
    row.append(element("td", { role: "cell", colspan: width, class: "none" }, text));
    return row;
  };

  const showAnswers = () => {
    put("cost-head", isPrivate() ? "Cost (rho)" : "Cost (queries)");
    const charged = history.filter((line) => line.cost > 0).slice(0, SHOWN);
    const rows = charged.map((line) => ({
      key: line.number,
      cells: [
        { text: stamp(line.time), kind: "time" },
        { text: line.event === "answer" ? nameOf(line.token) : "the owner" },
        { text: line.event === "answer" ? line.kind : line.event },
        { text: amount(line.cost), kind: "number" },
        { text: line.text },
      ],
    }));
    fill("answers", rows, "No query was answered yet.");
  };

  const showTokens = () => {
    const now = Date.now();
    const rows = latest.tokens.map((each) => {
      const ended = each.revoked ? "revoked" : each.expires && new Date(each.expires) <= now ? "expired" : null;
      return {
        key: each.id,
        cells: [
          { head: true, text: each.name, extra: [[each.id, "id"], ...(ended ? [[ended, "badge bad"]] : [])] },
          { text: each.scope },
          { text: each.expires ? stamp(each.expires, 16) : "never", kind: "time" },
          { text: each.revoked ? stamp(each.revoked, 16) : "no", kind: "time" },
          { text: inWords(each.spent), kind: "number" },
          { text: each.most === null ? "no limit" : inWords(each.most), kind: "number" },
          { text: each.last_used ? stamp(each.last_used) : "never", kind: "time" },
        ],
      };
    });
    fill("tokens", rows, "There are no tokens.");
  };

  // -- the chart ------------------------------------------------------------------------------------------

  const element = (name, attributes, text) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const shape = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Returns what was spent after each line: [milliseconds, units], the oldest first.
  const spending = () => {
    const oldest = history.at(-1);
    const sum = history.reduce((total, line) => total + line.cost, 0);
    let spent = oldest.number === 1 ? 0 : Math.max(0, latest.budget.spent - sum);
    const points = [[Date.parse(oldest.time), spent]];
    for (const line of [...history].reverse()) {
      if (line.cost > 0) points.push([Date.parse(line.time), (spent += line.cost)]);
    }
    return points;
  };

  // Returns the smallest of 1, 2, 5, 10, 20, ... that is not below a number.
  const round = (value) => {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [1, 2, 5, 10].find((step) => step * power >= value * (1 - 1e-9));
  };

  const moment = (time, span) => {
    const text = iso(new Date(time));
    if (span < 10 * 60e3) return text.slice(11, 19);
    return span < 36 * 3600e3 ? text.slice(11, 16) : text.slice(0, 10);
  };

  const showChart = () => {
    if (!latest || !history.length) return;
    const points = spending();
    const [start, spent, total] = [points[0][0], points.at(-1)[1], latest.budget.total];
    const end = Math.max(reached.getTime(), points.at(-1)[0], start + 1000);
    const withWhole = spent >= total / 5;
    const top = withWhole ? Math.max(total, spent) : round(Math.max(spent * 1.1, 1));
    byId("chart").replaceChildren(drawing({ points, start, end, top, total: withWhole ? total : null }));
    const part = history.at(-1).number > 1 ? ` The last ${number(history.length)} lines of the log.` : "";
    const whole = withWhole ? " The dashed line is the budget." : ` The budget, ${inWords(total)}, is above this chart.`;
    put("chart-note", `Spent ${isPrivate() ? "rho" : "queries"}, all tokens together, over time (UTC).${whole}${part}`);
  };

  const drawing = ({ points, start, end, top, total }) => {
    const [width, height] = [Math.max(byId("chart").clientWidth, 240), 240];
    const names = [0, top / 2, top].map((value) => number(isPrivate() ? value / 1e6 : value, 6));
    const left = 12 + 7 * Math.max(...names.map((name) => name.length));
    const [right, above, below] = [width - 8, 20, height - 26];
    const x = (time) => left + ((right - left) * (time - start)) / (end - start);
    const y = (value) => below - ((below - above) * value) / top;
    const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    const words = `Spent over time: from ${inWords(points[0][1])} at ${stamp(start)} to ${inWords(points.at(-1)[1])} at ${stamp(end)}`;
    svg.setAttribute("aria-label", words);
    [0, top / 2, top].forEach((value, k) => {
      svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
      svg.append(shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, names[k]));
    });
    [start, (start + end) / 2, end].forEach((time, k) => {
      const anchor = ["start", "middle", "end"][k];
      svg.append(shape("text", { x: x(time), y: height - 8, "text-anchor": anchor }, moment(time, end - start)));
    });
    const steps = points.slice(1).map(([time, value]) => `H${x(time).toFixed(1)}V${y(value).toFixed(1)}`).join("");
    const path = `M${left} ${y(points[0][1]).toFixed(1)}${steps}H${right}`;
    svg.append(shape("path", { class: "area", d: `${path}V${below}H${left}Z` }), shape("path", { class: "spent", d: path }));
    if (total !== null) {
      svg.append(shape("line", { class: "whole", x1: left, x2: right, y1: y(total), y2: y(total) }));
      svg.append(shape("text", { class: "whole-name", x: left + 4, y: y(total) - 6 }, `budget: ${inWords(total)}`));
    }
    if (points.length <= 80) {
      for (const [time, value] of points.slice(1)) svg.append(shape("circle", { class: "dot", cx: x(time), cy: y(value), r: 3.5 }));
    }
    return svg;
  };

  // -- events -----------------------------------------------------------------------------------------------

  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = byId("token").value.trim();
    byId("token").value = "";
    if (FORM.test(given)) enter(given);
    else leave(given ? REFUSED.unknown_token : REFUSED.no_token);
  });
  byId("leave").addEventListener("click", () => leave(""));
  document.addEventListener("visibilitychange", () => {
    if (token && !document.hidden) poll();
  });
  new ResizeObserver(showChart).observe(byId("chart"));

  const before = kept();
  if (before && FORM.test(before)) enter(before);
  else byId("token").focus();
})();
