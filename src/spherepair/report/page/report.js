"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const find = (id) => document.getElementById(id);
  const frame = find("map-frame"), canvas = find("map-canvas"), tip = find("map-tip");
  const pickCluster = find("filter-cluster"), pickRows = find("filter-rows");
  const context = canvas.getContext("2d");
  const count = data.x.length, sx = new Float32Array(count), sy = new Float32Array(count);
  const EDGE = 26, TAU = 2 * Math.PI;
  const widest = Math.max(1, ...data.discs.map((disc) => disc[0] + disc[2]), data.x.reduce((a, b) => Math.max(a, b), 1));
  const highest = Math.max(1, ...data.discs.map((disc) => disc[1] + disc[2]), data.y.reduce((a, b) => Math.max(a, b), 1));
  let width = 0, height = 0, scale = 1, left = 0, colors = [], ink = "#000", faint = "#888", paper = "#fff", pointed = -1;

  const isShown = (point) => {
    if (pickCluster.value !== "" && data.cluster[point] !== Number(pickCluster.value)) return false;
    if (pickRows.value === "violated") return data.is_violated[point] === 1;
    if (pickRows.value === "linked") return data.is_linked[point] === 1;
    if (pickRows.value === "borderline") return data.is_borderline[point] === 1;
    return true;
  };

  const shapes = [
    (r) => context.arc(0, 0, r, 0, TAU),
    (r) => polygon(3, r * 1.25, -TAU / 4),
    (r) => context.rect(-r * 0.9, -r * 0.9, r * 1.8, r * 1.8),
    (r) => polygon(4, r * 1.25, 0),
    (r) => polygon(3, r * 1.25, TAU / 4),
    (r) => cross(r, 0),
    (r) => cross(r, TAU / 8),
    (r) => polygon(3, r * 1.25, TAU / 2),
  ];
  const polygon = (corners, r, turn) => {
    for (let k = 0; k < corners; k++) context.lineTo(r * Math.cos(turn + (k * TAU) / corners), r * Math.sin(turn + (k * TAU) / corners));
    context.closePath();
  };
  const cross = (r, turn) => {
    for (let k = 0; k < 4; k++) {
      const angle = turn + (k * TAU) / 4;
      for (const [a, d] of [[-0.35, 1.2], [0.35, 1.2], [TAU / 8, 0.55]]) context.lineTo(d * r * Math.cos(angle + a), d * r * Math.sin(angle + a));
    }
    context.closePath();
  };
  const styleOf = (cluster) => (cluster < 0 ? [faint, 0] : [colors[data.styles[cluster][0]], data.styles[cluster][1]]);

  const readColors = () => {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    colors = Array.from({ length: 16 }, (_, k) => read(`--c${k}`));
    [ink, faint, paper] = [read("--ink"), read("--soft"), read("--panel")];
  };

  const resize = () => {
    width = Math.max(frame.clientWidth, 160); // a page without a layout yet has no width
    scale = Math.min((width - 2 * EDGE) / widest, (Math.max(320, Math.min(680, innerHeight * 0.8)) - 2 * EDGE) / highest);
    height = Math.round(highest * scale + 2 * EDGE);
    left = (width - widest * scale) / 2;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (let k = 0; k < count; k++) {
      sx[k] = left + data.x[k] * scale;
      sy[k] = EDGE + data.y[k] * scale;
    }
    draw();
  };

  const drawPoint = (point, radius) => {
    const [color, shape] = styleOf(data.cluster[point]);
    context.translate(sx[point], sy[point]);
    context.beginPath();
    shapes[shape](radius);
    context.fillStyle = color;
    context.fill();
    context.translate(-sx[point], -sy[point]);
  };

  const drawDiscs = () => {
    data.discs.forEach(([x, y, r], cluster) => {
      context.beginPath();
      context.arc(left + x * scale, EDGE + y * scale, r * scale, 0, TAU);
      context.fillStyle = context.strokeStyle = styleOf(cluster)[0];
      context.globalAlpha = 0.07;
      context.fill();
      context.globalAlpha = 0.35;
      context.stroke();
    });
  };

  const drawLabels = () => {
    context.globalAlpha = 1;
    context.font = "600 14px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeStyle = paper;
    context.fillStyle = ink;
    data.discs.forEach(([x, y, r], cluster) => {
      const at = [left + x * scale, Math.max(10, EDGE + (y - r) * scale - 9)];
      context.strokeText(String(cluster), ...at);
      context.fillText(String(cluster), ...at);
    });
    context.lineWidth = 1;
  };

  const drawLines = () => {
    if (pickRows.value !== "violated") return;
    context.strokeStyle = ink;
    context.globalAlpha = 0.55;
    for (const [a, b, isMustLink] of data.lines) {
      if (!isShown(a) && !isShown(b)) continue;
      context.setLineDash(isMustLink ? [] : [4, 4]);
      context.beginPath();
      context.moveTo(sx[a], sy[a]);
      context.lineTo(sx[b], sy[b]);
      context.stroke();
    }
    context.setLineDash([]);
  };

  const draw = () => {
    context.clearRect(0, 0, width, height);
    drawDiscs();
    const radius = count > 1500 ? 2.7 : 3.6; // smaller shapes cannot be told apart
    let shown = 0;
    context.globalAlpha = 0.1;
    for (let k = 0; k < count; k++) if (!isShown(k)) drawPoint(k, radius);
    context.globalAlpha = count > 1500 ? 0.75 : 0.85;
    for (let k = 0; k < count; k++) if (isShown(k)) { drawPoint(k, radius); shown++; }
    drawLines();
    drawLabels();
    if (pointed >= 0) {
      drawPoint(pointed, radius + 3);
      context.beginPath();
      context.arc(sx[pointed], sy[pointed], radius + 6, 0, TAU);
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.stroke();
      context.lineWidth = 1;
    }
    const sample = data.n_rows > count ? ` drawn, of ${data.n_rows.toLocaleString("en")} rows` : " rows";
    find("map-count").textContent = `${shown.toLocaleString("en")} of ${count.toLocaleString("en")}${sample}`;
  };

  const add = (parent, tag, text, className) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text; // text, never markup
    if (className) node.className = className;
    parent.append(node);
    return node;
  };

  const fillTip = (point) => {
    tip.replaceChildren();
    const cluster = data.cluster[point], next = data.next_cluster[point];
    add(tip, "b", data.names ? data.names[point] : `row ${data.rows[point]}`);
    const also = next < 0 ? "" : `, next ${next}`;
    add(tip, "span", cluster < 0 ? `No cluster, nearest ${next}` : `Cluster ${cluster}${also}; silhouette ${data.silhouette[point].toFixed(2)}`);
    if (data.is_violated[point]) add(tip, "p", "In a violated constraint", "weak");
    if (data.texts) add(tip, "p", data.texts[point]);
    if (data.values) {
      const list = add(tip, "dl");
      data.columns[Math.max(0, cluster)].forEach((name, k) => { add(list, "dt", name); add(list, "dd", data.values[point][k]); });
    }
    if (data.sprite) addTile(point, data.sprite);
  };

  const addTile = (point, sprite) => {
    const zoom = Math.max(1, Math.round(84 / Math.max(sprite.width, sprite.height)));
    const style = add(tip, "div", undefined, "tile-image").style;
    style.width = `${sprite.width * zoom}px`;
    style.height = `${sprite.height * zoom}px`;
    style.backgroundImage = `url("${sprite.uri}")`;
    style.backgroundSize = `${sprite.columns * sprite.width * zoom}px auto`;
    style.backgroundPosition = `${-(point % sprite.columns) * sprite.width * zoom}px ${-Math.floor(point / sprite.columns) * sprite.height * zoom}px`;
  };

  const point = (next) => {
    if (next === pointed) return;
    pointed = next;
    tip.hidden = next < 0;
    draw();
    if (next < 0) return;
    fillTip(next);
    const right = sx[next] + 16 + tip.offsetWidth < width;
    const x = right ? sx[next] + 14 : Math.max(4, sx[next] - 14 - tip.offsetWidth);
    const y = Math.max(4, Math.min(height - tip.offsetHeight - 4, sy[next] - tip.offsetHeight / 2));
    tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  };

  const nearest = (x, y, reach) => {
    let best = -1, least = reach * reach;
    for (let k = 0; k < count; k++) {
      const square = (sx[k] - x) ** 2 + (sy[k] - y) ** 2;
      if (square < least && isShown(k)) { best = k; least = square; }
    }
    return best;
  };
  const onPointer = (event) => point(nearest(event.offsetX, event.offsetY, event.pointerType === "touch" ? 26 : 14));
  canvas.addEventListener("pointermove", onPointer);
  canvas.addEventListener("pointerdown", onPointer);
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") point(-1); });
  canvas.addEventListener("blur", () => point(-1));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") point(-1);
    if (!step) return;
    event.preventDefault();
    for (let k = 1; k <= count; k++) {
      const next = (((pointed + step * k) % count) + count) % count;
      if (isShown(next)) return point(next);
    }
  });

  const filterList = (list) => {
    const isAnyShown = list.querySelector("[data-clusters]:not([hidden])") !== null;
    let note = list.querySelector(":scope > .empty");
    if (!note) note = add(list, "p", list.dataset.empty, "empty note");
    note.hidden = isAnyShown;
    list.querySelectorAll("details.more").forEach((more) => { more.open = more.open || pickCluster.value !== ""; });
  };
  const openCard = (cluster) => {
    const card = document.querySelector(`#cluster-${cluster} > details`);
    if (card) card.open = true;
  };
  const applyFilter = () => {
    const wanted = pickCluster.value;
    if (wanted !== "") openCard(wanted);
    for (const node of document.querySelectorAll("[data-clusters]")) {
      node.hidden = wanted !== "" && !node.dataset.clusters.split(" ").includes(wanted);
    }
    document.querySelectorAll("[data-empty]").forEach(filterList);
    for (const chip of document.querySelectorAll("[data-pick]")) {
      chip.setAttribute("aria-pressed", String(chip.dataset.pick === wanted));
    }
    point(-1);
    draw();
  };
  pickCluster.addEventListener("change", applyFilter);
  pickRows.addEventListener("change", applyFilter);
  for (const chip of document.querySelectorAll("[data-pick]")) {
    chip.addEventListener("click", () => {
      pickCluster.value = pickCluster.value === chip.dataset.pick ? "" : chip.dataset.pick;
      applyFilter();
    });
  }

  // A link to a folded card opens it.
  for (const link of document.querySelectorAll('a[href^="#cluster-"]')) {
    link.addEventListener("click", () => openCard(link.hash.slice("#cluster-".length)));
  }

  const quote = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const saveLines = (name, lines) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([[...lines, ""].join("\n")], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  find("download")?.addEventListener("click", () => {
    const lines = data.questions.map((pair) => `${pair.map(quote).join(",")},`);
    saveLines("pairs-to-label.csv", ["left,right,link", ...lines]);
  });
  find("download-again")?.addEventListener("click", () => {
    const lines = data.again.map((line) => line.map(quote).join(","));
    saveLines("answers-to-look-at.csv", ["left,right,link,by,source_row,reason", ...lines]);
  });

  const recolor = () => { readColors(); draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
  const onPaper = (isOn) => { document.documentElement.classList.toggle("on-paper", isOn); recolor(); };
  const openAll = () => document.querySelectorAll("details").forEach((more) => { more.open = true; });
  window.addEventListener("beforeprint", () => { pickCluster.value = ""; pickRows.value = "all"; applyFilter(); openAll(); onPaper(true); resize(); });
  window.addEventListener("afterprint", () => { onPaper(false); resize(); });
  readColors();
  new ResizeObserver(resize).observe(frame);
  resize();
})();
