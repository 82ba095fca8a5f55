// What a reveal report does beyond being read: commands are copied, long tables filtered, one node shown alone, charts
// drawn. Everything it needs is in the page; without it the page still reads.
(function () {
  'use strict';

  function copied(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error('not copied'));
  }

  function button(text, action) {
    const made = document.createElement('button');
    made.type = 'button';
    made.textContent = text;
    made.addEventListener('click', action);
    return made;
  }

  for (const block of document.querySelectorAll('pre')) {
    const lines = Array.from(block.children, function (line) { return line.textContent; });
    const copy = button('Copy', function () {
      copied(lines.join('\n')).then(
        function () { copy.textContent = 'Copied'; }, function () { copy.textContent = 'Select and copy'; });
      setTimeout(function () { copy.textContent = 'Copy'; }, 2000);
    });
    copy.className = 'copy';
    const frame = document.createElement('div');
    frame.className = 'copyable';
    block.replaceWith(frame);
    frame.append(block, copy);
  }

  function unfold(inside) {
    for (let fold = inside.closest('details'); fold; fold = fold.parentElement.closest('details')) fold.open = true;
  }

  // A link leads to a finding that is folded away: not all browsers unfold it by themselves.
  document.addEventListener('click', function (event) {
    const link = event.target.closest('a[href^="#"]');
    const target = link && document.getElementById(link.getAttribute('href').slice(1));
    if (target) unfold(target);
  });

  // A print has all findings, each with all of its lines.
  window.addEventListener('beforeprint', function () {
    for (const folded of document.querySelectorAll('details.findings, .card details')) folded.open = true;
  });

  // Tables whose rows are of a few kinds have a choice for each: detectors of an interval, and its subsystem.
  const kChoices = ['Detectors', 'Subsystem'];
  const kLongTable = 8;
  function words(row, column) {
    const cell = Array.from(row.cells).find(function (one) { return one.dataset.label === column; });
    if (!cell || !cell.firstChild) return [];  // labels of an interval stand below its detectors
    return cell.firstChild.textContent.split(/[+\s]+/).filter(function (word) { return word && word !== '-'; });
  }
  function choice(column, rows, changed) {
    const known = new Set(rows.flatMap(function (row) { return words(row, column); }));
    if (known.size < 2) return null;
    const select = document.createElement('select');
    select.className = 'filter';
    select.setAttribute('aria-label', column);
    for (const text of ['', ...Array.from(known).sort()]) {
      const option = document.createElement('option');
      option.value = text;
      option.textContent = text || column + ': all';
      select.append(option);
    }
    select.addEventListener('change', changed);
    return select;
  }
  for (const table of document.querySelectorAll('table.stack')) {
    const rows = Array.from(table.tBodies[0].rows);
    const columns = kChoices.filter(function (column) { return rows.some(function (row) { return words(row, column).length; }); });
    const choices = rows.length < 2 || columns.length < kChoices.length ? [] : columns.map(function (column) {
      return { column: column, select: choice(column, rows, filter) };
    }).filter(function (one) { return one.select; });
    if (rows.length < kLongTable && !choices.length) continue;
    const field = document.createElement('input');
    field.type = 'search';
    field.className = 'filter';
    field.placeholder = 'Only rows with this text';
    field.setAttribute('aria-label', 'Only rows with this text');
    const count = document.createElement('span');
    count.className = 'filtered quiet small';
    count.setAttribute('role', 'status');
    function filter() {
      const wanted = field.value.toLowerCase();
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted) || choices.some(function (one) {
          return one.select.value && !words(row, one.column).includes(one.select.value);
        });
      }
      const left = rows.filter(function (row) { return !row.hidden; }).length;
      count.textContent = left < rows.length || wanted ? left + ' of ' + rows.length : '';
    }
    field.addEventListener('input', filter);
    table.parentNode.before(...choices.map(function (one) { return one.select; }), field, count);
  }

  // The map of nodes opens a node: charts, rows and lanes of the others are hidden.
  const names = Array.from(document.querySelectorAll('table.map th[scope="row"]'));
  const notice = document.createElement('div');
  notice.id = 'one-node';
  notice.setAttribute('role', 'status');
  function showOnly(node) {
    const former = names.find(function (name) { return name.firstChild.getAttribute('aria-pressed') === 'true'; });
    for (const name of names) name.firstChild.setAttribute('aria-pressed', String(name.textContent === node));
    for (const part of document.querySelectorAll('[data-node]')) {
      part.classList.toggle('elsewhere', node !== null && part.dataset.node !== node);
      if (part.dataset.node === node) unfold(part);
    }
    document.dispatchEvent(new CustomEvent('node', { detail: node }));
    if (node === null) {
      // The button goes; whoever uses the keyboard goes on where the node was chosen.
      if (former && notice.contains(document.activeElement)) former.firstChild.focus({ preventScroll: true });
      notice.replaceChildren();
      return;
    }
    notice.replaceChildren('Charts, tables and lanes show only ' + node + '.',
        button('All nodes', function () { showOnly(null); }));
  }
  for (const name of names) {
    const open = button(name.textContent, function () {
      showOnly(open.getAttribute('aria-pressed') === 'true' ? null : open.textContent);
    });
    open.setAttribute('aria-pressed', 'false');
    name.replaceChildren(open);
  }
  if (names.length) {
    document.getElementById('node-help').hidden = false;
    document.querySelector('main').append(notice);  // empty: screen readers tell only of changes
  }
})();

(function () {
  'use strict';

  const source = document.getElementById('timeline-data');
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const box = document.getElementById('charts');
  if (!box || !data.channels.length) return;

  const kShades = { finding: 'rgba(214, 69, 56, 0.20)', notice: 'rgba(214, 148, 30, 0.20)' };
  // Paper is white, whatever the screen is.
  const kPaper = { line: '#2f74c0', ink: '#1c2330', quiet: '#5a6474' };
  let printing = false;
  function colour(name) {
    return printing ? kPaper[name] : getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  }
  const charts = [];
  let synchronising = false;

  function together(action) {
    if (synchronising) return;
    synchronising = true;
    try { action(); } finally { synchronising = false; }
  }

  function clock(seconds) {
    if (data.begin_utc_ms === null) return '';
    return new Date(data.begin_utc_ms + seconds * 1000).toISOString().slice(11, 21) + ' UTC';
  }

  function shown(value, unit) {
    if (value === null || value === undefined || Number.isNaN(value)) return 'not measured';
    const digits = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : String(+value.toPrecision(3));
    return unit ? digits + (unit[0] === '/' ? '' : ' ') + unit : digits;
  }

  const kPrefixes = [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']];
  function tick(value) {
    for (const [size, prefix] of kPrefixes) {
      if (Math.abs(value) >= size) return +(value / (size === 1e4 ? 1e3 : size)).toPrecision(3) + prefix;
    }
    return String(+value.toPrecision(3));
  }

  function atRest(channel) {
    if (!channel.values.some(function (value) { return value !== null; })) return 'not measured';
    return channel.expected === null ? channel.unit : channel.unit + ', dashed: expected ' + channel.expected_text;
  }

  function shade(context, area, graph) {
    for (const one of data.intervals) {
      const left = Math.max(graph.toDomXCoord(one.begin), area.x);
      const right = Math.min(graph.toDomXCoord(one.end), area.x + area.w);
      if (right <= left) continue;
      context.fillStyle = kShades[one.kind] || kShades.notice;
      context.fillRect(left, area.y, Math.max(right - left, 2), area.h);
      context.fillStyle = colour('ink');
      context.font = 'bold 11px sans-serif';
      const last = area.x + area.w - context.measureText(one.label).width;
      context.fillText(one.label, Math.min(left + 3, last), area.y + 11);
    }
  }

  // Training steps are short ticks at the bottom, the other marks dotted lines of the chart's height.
  function ticks(channel, context, area, graph) {
    context.save();
    context.strokeStyle = colour('quiet');
    for (const mark of data.marks) {
      if (mark.node && data.several_nodes && mark.kind !== 'training' && mark.node !== channel.node) continue;
      const x = Math.round(graph.toDomXCoord(mark.at)) + 0.5;
      if (!(x >= area.x && x <= area.x + area.w)) continue;
      context.setLineDash(mark.kind === 'training' ? [] : [1, 3]);
      context.beginPath();
      context.moveTo(x, mark.kind === 'training' ? area.y + area.h - 6 : area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
    }
    context.restore();
  }

  const finest = Math.min(...data.channels.map(function (channel) { return channel.step; }));
  function near(channel, seconds) {
    const window = charts[0].graph.xAxisRange();
    const reach = Math.max((window[1] - window[0]) / 150, finest / 2);
    return data.marks.filter(function (mark) {
      const here = !mark.node || !data.several_nodes || mark.kind === 'training' || mark.node === channel.node;
      return here && Math.abs(mark.at - seconds) <= reach;
    }).slice(0, 2).map(function (mark) { return (mark.kind === 'training' ? 'training ' : '') + mark.text; });
  }

  function expectation(channel) {
    return function (context, area, graph) {
      shade(context, area, graph);
      ticks(channel, context, area, graph);
      if (channel.expected === null) return;
      const y = graph.toDomYCoord(channel.expected);
      if (!(y >= area.y && y <= area.y + area.h)) return;
      context.save();
      context.strokeStyle = colour('ink');
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(area.x, y);
      context.lineTo(area.x + area.w, y);
      context.stroke();
      context.restore();
    };
  }

  // The strips of phases have the axis of the charts.
  const strips = Array.from(document.querySelectorAll('.phases .track'));
  function alignStrips(begin, end) {
    const area = charts[0].graph.getArea();
    const right = charts[0].area.clientWidth - area.x - area.w;
    for (const strip of strips) {
      const inside = strip.firstChild;
      const from = Number(inside.dataset.begin);
      strip.style.marginLeft = area.x + 'px';
      strip.style.marginRight = Math.max(0, right) + 'px';
      inside.style.left = 100 * (from - begin) / (end - begin) + '%';
      inside.style.width = 100 * (Number(inside.dataset.end) - from) / (end - begin) + '%';
    }
  }

  function zoom(begin, end) {
    alignStrips.apply(null, begin === null ? data.window : [begin, end]);
    together(function () {
      for (const chart of charts) chart.graph.updateOptions({ dateWindow: begin === null ? data.window : [begin, end] });
    });
  }

  function read(seconds) {
    together(function () {
      for (const chart of charts) {
        const channel = chart.channel;
        const row = Math.round((seconds - channel.begin) / channel.step);
        const inside = row >= 0 && row < channel.values.length;
        if (inside) chart.graph.setSelection(row); else chart.graph.clearSelection();
        chart.reading.textContent = [seconds.toFixed(1) + ' s', clock(seconds),
            shown(inside ? channel.values[row] : null, channel.unit), ...near(channel, seconds)].filter(Boolean).join(' \u00b7 ');
      }
    });
  }

  function unread() {
    together(function () {
      for (const chart of charts) {
        chart.graph.clearSelection();
        chart.reading.textContent = atRest(chart.channel);
      }
    });
  }

  // On a touch screen a finger on a chart scrolls the page, as it does everywhere else on it.
  const touch = window.matchMedia('(pointer: coarse)').matches;
  const interaction = Object.assign({}, Dygraph.defaultInteractionModel);
  if (touch) for (const name of ['touchstart', 'touchmove', 'touchend']) delete interaction[name];
  interaction.dblclick = function () { zoom(null); };

  function mean(channel, inside) {
    let sum = 0;
    let count = 0;
    channel.values.forEach(function (value, i) {
      if (value === null || !inside(channel.begin + i * channel.step)) return;
      sum += value;
      ++count;
    });
    return count ? sum / count : null;
  }

  // The chart for those who do not see it: each interval against the rest of the job.
  function inNumbers(channel, name) {
    const unseen = document.createElement('div');  // a table would be as wide as its text
    unseen.className = 'unseen';
    const table = document.createElement('table');
    unseen.append(table);
    table.createCaption().textContent = name + ', means';
    const row = function (label, value) {
      const made = table.insertRow();
      const head = document.createElement('th');
      head.scope = 'row';
      head.textContent = label;
      made.append(head);
      made.insertCell().textContent = shown(value, channel.unit);
    };
    const within = function (one) { return function (at) { return at >= one.begin && at < one.end; }; };
    for (const one of data.intervals.slice(0, 10)) {
      row('Finding ' + one.label + ', ' + one.begin.toFixed(0) + ' to ' + one.end.toFixed(0) + ' s', mean(channel, within(one)));
    }
    row('Rest of the job', mean(channel, function (at) {
      return !data.intervals.some(function (one) { return within(one)(at); });
    }));
    return unseen;
  }

  function draw(channel, index) {
    const holder = document.createElement('div');
    holder.className = 'channel';
    const header = document.createElement('header');
    const name = document.createElement('code');
    name.textContent = (data.several_nodes && channel.node ? channel.node + '  ' : '') + channel.name;
    const reading = document.createElement('span');
    reading.className = 'reading';
    reading.textContent = atRest(channel);
    header.append(name, reading);
    const last = index === data.channels.length - 1;
    const chart = document.createElement('div');
    chart.className = last ? 'chart last' : 'chart';
    chart.setAttribute('role', 'img');
    const measured = channel.values.filter(function (value) { return value !== null; });
    chart.setAttribute('aria-label', 'Timeline of ' + name.textContent + ': ' + (measured.length === 0 ?
        'not measured' : shown(Math.min(...measured), channel.unit) + ' to ' +
        shown(Math.max(...measured), channel.unit)));
    if (data.several_nodes && channel.node) holder.dataset.node = channel.node;
    holder.append(header, chart);
    if (data.intervals.length && measured.length) holder.append(inNumbers(channel, name.textContent));
    box.append(holder);

    const rows = channel.values.map(function (value, i) { return [channel.begin + i * channel.step, value]; });
    const graph = new Dygraph(chart, rows, {
      labels: ['seconds', channel.name],
      legend: 'never',
      colors: [colour('line')],
      strokeWidth: 1.2,
      highlightCircleSize: 3,
      dateWindow: data.window,
      includeZero: true,
      gridLineColor: 'rgba(128, 136, 150, 0.28)',
      axisLineColor: 'rgba(128, 136, 150, 0.6)',
      interactionModel: interaction,
      underlayCallback: expectation(channel),
      axes: {
        x: { drawAxis: last, axisLabelFormatter: function (x) { return +x.toFixed(3) + ' s'; }, pixelsPerLabel: 70 },
        y: { axisLabelWidth: 52, pixelsPerLabel: 18, axisLabelFormatter: tick },
      },
      highlightCallback: function (event, x) { if (!synchronising) read(x); },
      unhighlightCallback: function () { if (!synchronising) unread(); },
      zoomCallback: function (begin, end) { zoom(begin, end); },
      drawCallback: function (drawn, initial) {
        if (!initial && !synchronising && charts.length) zoom.apply(null, drawn.xAxisRange());
      },
    });
    charts.push({ graph: graph, channel: channel, reading: reading, holder: holder, area: chart });
  }

  document.getElementById('timeline-legend').hidden = false;
  document.getElementById('timeline-help').hidden = touch;
  data.channels.forEach(draw);
  alignStrips.apply(null, data.window);

  // The last chart that is shown has the axis.
  document.addEventListener('node', function () {
    const shown = charts.filter(function (chart) { return !chart.holder.classList.contains('elsewhere'); });
    together(function () {
      for (const chart of shown) {
        const last = chart === shown[shown.length - 1];
        chart.area.classList.toggle('last', last);
        chart.graph.updateOptions({ axes: { x: { drawAxis: last } } }, true);
        chart.graph.resize();
      }
    });
  });

  function recolour(onPaper) {
    printing = onPaper;
    together(function () {
      for (const chart of charts) chart.graph.updateOptions({ colors: [colour('line')] });
    });
  }
  window.addEventListener('beforeprint', function () { recolour(true); });
  window.addEventListener('afterprint', function () { recolour(false); });
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () { recolour(false); });

  const controls = document.getElementById('timeline-controls');
  function button(text, action) {
    const made = document.createElement('button');
    made.type = 'button';
    made.textContent = text;
    made.addEventListener('click', action);
    controls.append(made);
  }
  button('Whole job', function () { zoom(null); });
  data.intervals.slice(0, 4).forEach(function (one) {
    const margin = Math.max((one.end - one.begin) / 2, 1);
    button(one.label + ': ' + one.begin.toFixed(0) + ' to ' + one.end.toFixed(0) + ' s', function () {
      zoom(Math.max(one.begin - margin, data.window[0]), Math.min(one.end + margin, data.window[1]));
    });
  });
})();
