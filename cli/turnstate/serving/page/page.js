"use strict";
// Stored text reaches the page as text nodes and attribute values only, never as markup.
(() => {
  const BAND = 100; // turns that are shown at once
  const ROWS = 200; // keys that are shown at first, and more at a time
  const CUT = 4000; // characters of a value that are shown at first
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e007f}]/gu;
  const STATUS_SIGNS = { error: "!", interrupted: "‖", unfinished: "…", never_ran: "∅" };
  const UNREAD = ["value_missing", "encrypted", "undecodable", "delta_unresolved"];
  const HEADINGS = {
    value: "Value",
    turn_no_longer_retained: "No longer retained: it was there, and was pruned",
    not_yet_written: "Not yet written",
    removed: "Removed: written before, and gone by then",
    no_such_turn: "Never was: the thread has had no such turn",
    no_such_key: "Never was: the thread has no such key",
    no_such_thread: "Never was: the store has no such thread",
    value_missing: "Cannot be read: its row is missing",
    encrypted: "Cannot be read: encrypted",
    undecodable: "Cannot be read: not decodable",
    delta_unresolved: "Cannot be read: its deltas do not add up",
  };
  const by = (id) => document.getElementById(id);
  const embedded = by("report");
  const report = embedded && JSON.parse(embedded.textContent);

  function escaped(char) {
    return "\\u{" + char.codePointAt(0).toString(16) + "}";
  }
  function shown(text) {
    return String(text).replace(HIDDEN, escaped);
  }
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }
  function isolated(text) {
    return make("bdi", {}, shown(text));
  }
  function counted(number, noun) {
    return number + " " + noun + (number === 1 ? "" : "s");
  }
  function say(text) {
    by("status").textContent = text;
  }

  // Where answers come from: the server, or what the report holds.

  class Refusal extends Error {}
  let token = "";
  try { token = sessionStorage.getItem("turnstate-token") || ""; } catch { /* no storage here */ }

  async function ask(path, query = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const url = path + (given.length ? "?" + new URLSearchParams(given) : "");
    const headers = token ? { Authorization: "Bearer " + token } : {};
    let response;
    try {
      response = await fetch(url, { headers, cache: "no-store" });
    } catch {
      throw new Refusal("The server does not answer.");
    }
    if (response.status === 401) {
      by("token").hidden = false;
      throw new Refusal("The token is needed.");
    }
    const body = await response.json();
    return { status: response.status, body, more: response.headers.has("x-turnstate-more") };
  }
  async function must(path, query) {
    const { status, body } = await ask(path, query);
    if (status !== 200) throw new Refusal(body.outcome ? body.outcome + ": " + body.message : body.message);
    return body;
  }
  const DOTS = [".", ".."];
  // A dot or two would be dropped from a path: they go as a parameter.
  function part(text) {
    if (DOTS.includes(text)) return "-";
    try { return encodeURIComponent(text); } catch {
      throw new Refusal("This name is no Unicode text, and cannot be asked for here; the commands take it.");
    }
  }
  const pathOf = (thread, rest) => "threads/" + part(thread) + "/" + rest;
  const named = (thread) => (DOTS.includes(thread) ? { thread } : {});

  const server = {
    threads: (pattern) => ask("threads", { pattern }),
    turns: (thread) => must(pathOf(thread, "turns"), named(thread)),
    chart: (thread) => must(pathOf(thread, "chart"), named(thread)),
    async state(thread, row, turn) {
      const key = row.key;
      const rest = "state/" + part(key);
      const more = DOTS.includes(key) ? { key } : {};
      const { body } = await ask(pathOf(thread, rest), { ...named(thread), ...more, turn, text: true });
      if (!body.outcome) throw new Refusal(body.message);
      return { outcome: body.outcome, message: body.message, text: body.text, notes: body.notes };
    },
    async diff(thread, row, from, to) {
      const pattern = row.key.replace(/[[*?]/g, "[$&]"); // a pattern is possible there, and a name is meant
      const { status, body } = await ask(pathOf(thread, "diff"), { ...named(thread), key: pattern, from, to, text: true });
      if (status !== 200) return { text: "", notes: [body.outcome ? body.outcome + ": " + body.message : body.message] };
      return { text: body.text, notes: body.notes };
    },
  };
  const file = report && {
    threads: async () => ({ status: 200, body: report.threads, more: false }),
    turns: async () => report.turns,
    chart: async () => report.chart,
    async state(thread, row, turn) {
      const cell = report.cells[row.index][report.chart.turns.indexOf(turn)];
      const version = cell.version === undefined ? {} : report.versions[row.index][cell.version];
      const notes = version.left_out ? [version.left_out, ...cell.notes] : cell.notes;
      return { outcome: cell.outcome, message: cell.message, text: version.text, notes };
    },
    async diff(thread, row, from, to) {
      const [one, two] = [from, to].map((turn) => report.cells[row.index][report.chart.turns.indexOf(turn)].version);
      if (one === undefined || two === undefined) return { text: "", notes: ["There is no value at one of the two turns."] };
      if (one === two) return { text: "", notes: ["no differences"] };
      const text = report.diffs[row.index][one + " " + two];
      if (text === undefined) return { text: "", notes: ["This difference was left out of the report, for its size; diff tells it."] };
      return { text, notes: text ? [] : ["no differences"] };
    },
  };
  const source = file || server;

  // What is shown.

  let thread = null, turns = null, chart = null, first = 0, rows = ROWS, asked = 0;
  let one = null, two = null, at = { row: 0, column: 0 };

  async function listThreads(pattern) {
    const { status, body, more } = await source.threads(pattern);
    if (status !== 200) throw new Refusal(body.message);
    by("threads").replaceChildren(...body.map((each) => {
      const link = make("a", { href: "#" + fragment(each.thread) }, isolated(each.thread === "" ? "(empty id)" : each.thread));
      link.append(make("small", {}, counted(each.checkpoints, "checkpoint") + (each.last ? ", last " + each.last.slice(0, 19) + "Z" : "")));
      return make("li", {}, link);
    }));
    by("threads-note").textContent = more ? "There are more; find one by its id." : body.length ? "" : "No threads.";
    mark();
    return body;
  }
  function fragment(id) {
    return "thread=" + encodeURIComponent(id.replace(/[\ud800-\udfff](?![\udc00-\udfff])/g, "\ufffd"));
  }
  function chosenThread() {
    const found = /^#thread=(.*)$/.exec(location.hash);
    try { return found ? decodeURIComponent(found[1]) : null; } catch { return null; }
  }
  function mark() {
    for (const link of by("threads").querySelectorAll("a")) {
      if (thread !== null && link.getAttribute("href") === "#" + fragment(thread)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  async function openThread(id, moved) {
    const mine = ++asked;
    thread = id;
    mark();
    say("Loading.");
    const found = await Promise.all([source.turns(id), source.chart(id)]);
    if (mine !== asked) return;
    [turns, chart] = found;
    chart.keys.forEach((row, index) => { row.index = index; });
    one = two = null;
    rows = ROWS;
    first = Math.max(0, chart.turns.length - BAND);
    at = { row: 0, column: Math.max(0, chart.turns.length - 1) };
    by("thread").hidden = false;
    by("thread-title").replaceChildren("Thread ", isolated(id === "" ? "(empty id)" : id));
    document.title = shown(id) + " – turnstate";
    const sure = { exact: "", at_least: "at least ", estimate: "about " }[turns.total_is] || "";
    const kept = chart.retained_turns.length;
    by("facts").textContent = sure + counted(turns.total, "turn") + " (" + turns.total_is.replace("_", " ") + "), counted by " +
      turns.turns_by + "; " + (kept === turns.total ? "all" : kept) + " can be read as they ended" +
      (turns.namespace ? "; namespace " + shown(turns.namespace) : "") +
      (turns.tip === turns.head ? "" : "; along the branch to checkpoint " + shown(turns.tip) + ", not the head's line");
    by("notes").replaceChildren(...chart.notes.map((note) => make("li", {}, shown(note))));
    const legend = chart.legend.map(({ cell, sign, words }) =>
      make("li", {}, make("span", { class: cell, "aria-hidden": "true" }, sign.trim() || "blank"), " " + words));
    by("legend").replaceChildren(...legend);
    drawGrid();
    drawQuestions();
    drawDetail();
    say(counted(chart.keys.length, "key") + " in " + counted(chart.turns.length, "turn") + ".");
    if (moved) by("thread-title").focus();
  }

  function writtenWords(row) {
    const list = row.turns_written;
    const lost = row.earlier_unknown ? (list.length ? "; rows that are gone wrote it too" : "written in rows that are gone") : "";
    if (!list.length) return lost || "no write known";
    const some = list.length > 8 ? list.slice(0, 3).join(", ") + ", … " + list.slice(-2).join(", ") : list.join(", ");
    return "written in " + counted(list.length, "turn") + " (" + some + ")" + lost;
  }
  function turnOf(number) {
    return turns.turns.find((turn) => turn.turn === number) || { turn: number };
  }
  function statusWords(turn) {
    if (turn.turn === 0) return "before the first question";
    const parts = [];
    if (turn.retained === false) parts.push("no longer retained");
    if (turn.status) parts.push(turn.status.replace("_", " "));
    if (turn.read_from_next_input) parts.push("pruned, end is kept");
    else if (turn.thinned) parts.push("lost steps");
    if (turn.edited) parts.push("edited");
    return parts.join(", ");
  }

  function drawGrid() {
    const numbers = chart.turns.slice(first, first + BAND);
    const legend = Object.fromEntries(chart.legend.map((each) => [each.cell, each]));
    const head = make("tr", {}, make("th", { scope: "col", "aria-colindex": 1 }, "Key"));
    // Columns are counted among all turns: a screen reader knows only those that are shown.
    for (const [offset, number] of numbers.entries()) {
      const turn = turnOf(number);
      const words = "turn " + number + ", " + statusWords(turn) + (turn.question ? ": " + shown(turn.question) : "");
      const sign = turn.retained === false ? "░" : STATUS_SIGNS[turn.status] || "";
      head.append(make("th", { scope: "col", "aria-colindex": first + offset + 2, title: words.slice(0, 600) },
        make("span", { "aria-hidden": "true" }, String(number)),
        make("small", { "aria-hidden": "true" }, sign)));
      head.lastChild.setAttribute("aria-label", "turn " + number + ", " + statusWords(turn));
    }
    const body = make("tbody");
    chart.keys.slice(0, rows).forEach((row, index) => {
      const line = make("tr", {}, make("th", { scope: "row", "aria-colindex": 1 }, isolated(row.key === "" ? "(empty)" : row.key), make("small", {}, writtenWords(row))));
      numbers.forEach((number, offset) => {
        const kind = row.cells[first + offset];
        const cell = make("td", { role: "gridcell", tabindex: "-1", class: kind, "aria-selected": "false", "aria-colindex": first + offset + 2, "data-row": index, "data-column": first + offset });
        cell.setAttribute("aria-label", shown(row.key) + ", turn " + number + ": " + (legend[kind] ? legend[kind].words : kind));
        cell.textContent = legend[kind] ? legend[kind].sign : "";
        line.append(cell);
      });
      body.append(line);
    });
    const grid = by("grid");
    grid.setAttribute("aria-rowcount", chart.keys.length + 1);
    grid.setAttribute("aria-colcount", chart.turns.length + 1);
    grid.replaceChildren(make("thead", {}, head), body);
    by("bands").hidden = chart.turns.length <= BAND;
    by("band").textContent = numbers.length ? "turns " + numbers[0] + " to " + numbers[numbers.length - 1] + " of " + turns.total : "";
    by("older").disabled = first === 0;
    by("newer").disabled = first + BAND >= chart.turns.length;
    const left = chart.keys.length - rows;
    by("more-keys").hidden = left <= 0;
    by("more-keys").textContent = "Show " + Math.min(left, ROWS) + " more of " + chart.keys.length + " keys";
    at.column = Math.min(Math.max(at.column, first), first + Math.max(numbers.length - 1, 0));
    const stop = cellAt(at);
    if (stop) stop.tabIndex = 0;
    if (!chart.keys.length) body.append(make("tr", {}, make("td", { class: "absent" }, "no keys")));
    markCells();
    by("grid-box").scrollLeft = by("grid-box").scrollWidth;
  }
  function cellAt(place) {
    return by("grid").querySelector('td[data-row="' + place.row + '"][data-column="' + place.column + '"]');
  }
  function move(row, column) {
    const to = { row: Math.min(Math.max(row, 0), Math.min(rows, chart.keys.length) - 1), column: Math.min(Math.max(column, 0), chart.turns.length - 1) };
    const from = cellAt(at);
    if (from) from.tabIndex = -1;
    at = to;
    if (to.column < first || to.column >= first + BAND) {
      first = Math.max(0, Math.min(to.column < first ? to.column - BAND + 1 : to.column, chart.turns.length - BAND));
      drawGrid();
    }
    const cell = cellAt(at);
    if (cell) { cell.tabIndex = 0; cell.focus(); }
  }
  function markCells() {
    for (const cell of by("grid").querySelectorAll("td.one, td.two")) {
      cell.classList.remove("one", "two");
      cell.setAttribute("aria-selected", "false");
    }
    for (const [name, place] of [["one", one], ["two", two]]) {
      const cell = place && cellAt(place);
      if (cell) { cell.classList.add(name); cell.setAttribute("aria-selected", "true"); }
    }
  }
  function choose(place, second) {
    const comparing = second || by("compare").getAttribute("aria-pressed") === "true";
    if (comparing && one && place.row !== one.row) {
      say("A difference is between two turns of one key.");
      one = place; two = null;
    } else if (comparing && one && place.column !== one.column) {
      two = place;
    } else {
      one = place; two = null;
    }
    by("compare").setAttribute("aria-pressed", "false");
    markCells();
    drawDetail().catch(failed);
  }

  function outcomeClass(outcome) {
    if (outcome === "value") return "value";
    if (outcome === "turn_no_longer_retained") return "gone";
    return UNREAD.includes(outcome) ? "unread" : "never";
  }
  function block(text, label, painted) {
    const pre = make("pre", { tabindex: "0", role: "region", "aria-label": label });
    const parts = [pre];
    const fill = (part) => {
      if (!painted) { pre.textContent = part; return; }
      pre.replaceChildren(...part.split("\n").map((line) => {
        const mark = /^ {2}([+~-]) /.exec(line);
        return make("span", mark ? { class: { "+": "came", "-": "went", "~": "other" }[mark[1]] } : {}, line + "\n");
      }));
    };
    if (text.length > CUT * 1.2) {
      fill(text.slice(0, CUT) + "…");
      const all = make("button", { type: "button" }, "Show all, " + text.length.toLocaleString("en") + " characters");
      all.addEventListener("click", () => { fill(text); all.remove(); pre.focus(); });
      parts.push(all);
    } else fill(text);
    return parts;
  }
  async function drawDetail() {
    by("detail").hidden = !one;
    if (!one) return;
    const mine = ++asked;
    const row = chart.keys[one.row];
    const places = two ? [one, two].sort((a, b) => a.column - b.column) : [one];
    const numbers = places.map((place) => chart.turns[place.column]);
    const title = by("detail-title");
    title.replaceChildren(isolated(row.key === "" ? "(empty)" : row.key),
      two ? ", from the end of turn " + numbers[0] + " to the end of turn " + numbers[1] : ", as turn " + numbers[0] + " ended");
    by("outcome").className = ""; // nothing may stand under another cell's title
    by("outcome").textContent = "Loading.";
    by("values").replaceChildren();
    by("detail-notes").replaceChildren();
    const readings = await Promise.all(numbers.map((number) => source.state(thread, row, number)));
    const diff = two && await source.diff(thread, row, ...numbers);
    if (mine !== asked) return;
    const outcome = by("outcome");
    const values = [];
    let notes = [];
    if (two) {
      outcome.className = "";
      outcome.textContent = diff.text ? "Difference" : diff.notes[0] || "no differences";
      if (diff.text) values.push(...block(diff.text, "difference", true));
      notes = diff.text ? diff.notes : diff.notes.slice(1);
    } else {
      outcome.className = outcomeClass(readings[0].outcome);
      outcome.textContent = HEADINGS[readings[0].outcome] || readings[0].outcome;
    }
    readings.forEach((reading, index) => {
      const label = "turn " + numbers[index];
      if (two) values.push(make("h4", {}, "Turn " + numbers[index] + ": " + (HEADINGS[reading.outcome] || reading.outcome)));
      if (reading.outcome === "value" && reading.text !== undefined) values.push(...block(reading.text, "value of " + label, false));
      notes.push(...reading.notes);
    });
    by("values").replaceChildren(...values);
    by("detail-notes").replaceChildren(...[...new Set(notes)].map((note) => make("li", {}, shown(note))));
    say(title.textContent + ": " + outcome.textContent);
  }
  function drawQuestions() {
    by("questions").replaceChildren(...turns.turns.filter((turn) => turn.turn > 0).map((turn) => {
      const question = make("span", {}, isolated(turn.question || "(no question)"));
      return make("li", {}, make("span", { class: "number" }, String(turn.turn)), make("span", { class: "quiet" }, statusWords(turn)), question);
    }));
  }
  function failed(error) {
    if (!(error instanceof Refusal)) console.error(error);
    say(error instanceof Refusal ? shown(error.message) : "This should not have happened: a defect in the page.");
  }

  // What a reader does.

  by("grid").addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-row]");
    if (!cell) return;
    const place = { row: Number(cell.dataset.row), column: Number(cell.dataset.column) };
    move(place.row, place.column);
    choose(place, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  by("grid").addEventListener("keydown", (event) => {
    const { row, column } = at;
    const ends = event.ctrlKey || event.metaKey;
    const steps = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [ends ? 0 : row, 0], End: [ends ? chart.keys.length : row, chart.turns.length],
      PageUp: [row - 10, column], PageDown: [row + 10, column],
    };
    if (event.altKey) return;
    if (steps[event.key]) move(...steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") choose({ ...at }, event.shiftKey);
    else if (event.key === "Escape") { one = two = null; markCells(); drawDetail().catch(failed); }
    else return;
    event.preventDefault();
  });
  by("compare").addEventListener("click", () => {
    const on = by("compare").getAttribute("aria-pressed") !== "true";
    by("compare").setAttribute("aria-pressed", String(on));
    two = null;
    markCells();
    if (on) { say("Choose another turn of the same key."); cellAt(one)?.focus(); }
  });
  by("older").addEventListener("click", () => { first = Math.max(0, first - BAND); drawGrid(); });
  by("newer").addEventListener("click", () => { first = Math.min(chart.turns.length - BAND, first + BAND); drawGrid(); });
  by("more-keys").addEventListener("click", () => { const from = rows; rows += ROWS; drawGrid(); move(from, at.column); });
  by("token-use").addEventListener("click", () => {
    token = by("token-text").value.trim();
    try { sessionStorage.setItem("turnstate-token", token); } catch { /* no storage here */ }
    by("token-text").value = "";
    by("token").hidden = true;
    start().catch(failed);
  });
  by("token-text").addEventListener("keydown", (event) => { if (event.key === "Enter") by("token-use").click(); });
  let waiting = 0;
  by("filter").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const text = by("filter").value;
      const literal = text.replace(/[[*?]/g, "[$&]");
      listThreads(text ? "*" + literal + "*" : undefined).catch(failed);
    }, 200);
  });
  addEventListener("hashchange", () => {
    const id = chosenThread();
    if (id !== null && id !== thread) openThread(id, true).catch(failed);
  });

  async function start() {
    by("about").textContent = report ? report.about : "What a thread's state held as of a turn, and what can no longer be known";
    by("layout").classList.toggle("alone", Boolean(report));
    by("list").hidden = Boolean(report);
    const found = await listThreads();
    const id = report ? found[0].thread : chosenThread() ?? (found.length ? found[0].thread : null);
    if (id === null) say("The store has no threads.");
    else await openThread(id, false);
  }
  start().catch(failed);
})();
