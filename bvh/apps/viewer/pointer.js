/* What viser does not report: the hovering pointer, taps, regions that are drawn, keys, clicks in the
   list of instances, and the colour scheme of the system.
   The script writes into the text fields behind two anchors, whose text viser sends like all that is
   typed, and hides these fields. It fetches nothing. */
if (!window.bvhWatches) {
  window.bvhWatches = true;
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  const picture = () => [...document.querySelectorAll('canvas')].reduce(
    (a, b) => a && a.width * a.height >= b.width * b.height ? a : b, null);
  // The text field after the anchor of this id; its row is hidden at the first call.
  const fieldBehind = name => {
    const anchor = document.getElementById(name);
    const field = anchor && [...document.querySelectorAll('input')].find(
      input => anchor.compareDocumentPosition(input) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (!field || field.tabIndex === -1) return field;
    let row = field;
    while (!row.parentElement.contains(anchor)) row = row.parentElement;
    row.style.cssText = 'height: 0; margin: 0; padding: 0; overflow: hidden; opacity: 0';
    row.inert = true;
    field.tabIndex = -1;
    return field;
  };
  const fill = (name, text) => {
    const field = fieldBehind(name);
    if (!field) return false;
    write.call(field, text);
    field.dispatchEvent(new Event('input', {bubbles: true}));
    return true;
  };
  // The pointer's position is sent as it is; events are numbered, with the few before them.
  let sent = '', number = 0;
  const report = text => { if (text !== sent && fill('bvh-cursor', text)) sent = text; };
  const recent = [];
  const send = event => {
    recent.push({n: number++, ...event});
    if (recent.length > 8) recent.shift();
    return fill('bvh-events', JSON.stringify(recent));
  };
  // Shares of the picture's width and height.
  const place = event => {
    const canvas = picture(), box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left + 0.5) / box.width, (event.clientY - box.top + 0.5) / box.height];
  };
  const over = event => {
    const canvas = picture();
    return canvas && (event.target === canvas || event.target.contains(canvas));
  };
  document.addEventListener('pointermove', event => {
    const canvas = picture();
    if (!canvas || event.buttons || event.pointerType === 'touch') return;
    if (!over(event)) return report('');
    const [x, y] = place(event);
    report((100 * x).toFixed(4) + ', ' + (100 * y).toFixed(4) + ' %');
  }, {capture: true, passive: true});
  document.addEventListener('pointerleave', () => report(''), {passive: true});

  // Taps: viser takes those of a mouse alone.
  let down = null, fingers = 0;
  document.addEventListener('pointerdown', event => {
    if (event.pointerType !== 'touch') return;
    fingers += 1;
    down = over(event) && fingers === 1 ? {x: event.clientX, y: event.clientY, t: event.timeStamp} : null;
  }, {capture: true, passive: true});
  document.addEventListener('pointerup', event => {
    if (event.pointerType !== 'touch') return;
    fingers = Math.max(0, fingers - 1);
    const still = down && Math.hypot(event.clientX - down.x, event.clientY - down.y) < 8;
    if (still && event.timeStamp - down.t < 600 && !tool()) {
      const [x, y] = place(event);
      send({kind: 'pick', x, y});
    }
    down = null;
  }, {capture: true, passive: true});
  document.addEventListener('pointercancel', () => { fingers = 0; down = null; }, {passive: true});

  // Regions: a sheet over the picture takes what is dragged.
  const tool = () => document.getElementById('bvh-tool')?.dataset.tool ?? '';
  const frame = document.createElement('div');
  frame.innerHTML = '<svg id="bvh-sheet" aria-hidden="true"><polygon fill="rgba(30,110,255,.15)" ' +
    'stroke="rgb(30,110,255)" stroke-width="2" stroke-dasharray="5 3"/></svg>';
  const sheet = frame.firstChild, line = sheet.firstChild;
  document.body.append(sheet);
  let drawn = null;
  const draw = () => {
    const a = drawn.pixels[0], b = drawn.pixels.at(-1);
    const corners = drawn.tool === 'lasso' ? drawn.pixels : [a, [b[0], a[1]], b, [a[0], b[1]]];
    line.setAttribute('points', corners.map(each => each.join(',')).join(' '));
  };
  sheet.addEventListener('pointerdown', event => {
    sheet.setPointerCapture(event.pointerId);
    drawn = {tool: tool(), points: [place(event)], pixels: [[event.offsetX, event.offsetY]]};
    draw();
  });
  sheet.addEventListener('pointermove', event => {
    if (!drawn) return;
    drawn.points.push(place(event));
    drawn.pixels.push([event.offsetX, event.offsetY]);
    draw();
  });
  sheet.addEventListener('pointerup', event => {
    if (!drawn) return;
    let {points} = drawn;
    if (drawn.tool === 'rectangle') points = [points[0], points.at(-1)];
    // Send every step-th point: some 400 corners are enough for a line that is drawn by hand.
    const step = Math.ceil(points.length / 400);
    if (points.length > 2) points = points.filter((_, k) => k % step === 0);
    const mode = event.ctrlKey || event.metaKey ? 'add' : event.altKey ? 'remove' : '';
    if (points.length > 1) send({kind: 'region', points, mode});
    drawn = null;
    line.setAttribute('points', '');
  });
  sheet.addEventListener('wheel', event => {
    picture().dispatchEvent(new WheelEvent('wheel', event));
  }, {passive: true});

  // Keys.
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') send({kind: 'escape'});
    if (event.key === 'Enter' && event.target === picture()) {
      const at = sent.split(',').map(parseFloat);
      const [x, y] = at.length === 2 ? [at[0] / 100, at[1] / 100] : [0.5, 0.5];
      send({kind: 'pick', x, y});
    }
  });

  // The list of instances.
  document.addEventListener('click', event => {
    const eye = event.target.closest?.('#bvh-instances button');
    if (eye) send({kind: 'hide', id: +eye.closest('.bvh-row').dataset.id});
  });
  document.addEventListener('dblclick', event => {
    const row = event.target.closest?.('.bvh-row');
    if (row && !event.target.closest('button')) send({kind: 'frame', id: +row.dataset.id});
  });
  const search = () => {
    const named = document.getElementById('bvh-search')?.value.toLowerCase() ?? '';
    for (const row of document.querySelectorAll('.bvh-row')) {
      const shown = row.textContent.toLowerCase().includes(named) ? 'flex' : 'none';
      if (row.style.display !== shown) row.style.display = shown;
    }
  };
  document.addEventListener('input', event => { if (event.target.id === 'bvh-search') search(); });

  // Light or dark, as the system has it.
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', () => send({kind: 'dark', value: dark.matches}));
  let greeted = false;
  const look = () => {
    fieldBehind('bvh-cursor');
    search();
    const canvas = picture();
    if (!greeted && fieldBehind('bvh-events')) {
      greeted = true;
      if (dark.matches) send({kind: 'dark', value: true});
      if (innerWidth < 700) {
        // The panel would cover the scene: its head opens and closes it.
        const panel = document.getElementById('bvh-title').closest('.mantine-Paper-root');
        [...panel.querySelectorAll('div')].find(each => each.style.cursor === 'pointer')?.click();
        send({kind: 'narrow'});
      }
    }
    if (canvas) {
      if (canvas.tabIndex !== 0) canvas.tabIndex = 0;
      if (!canvas.getAttribute('role')) canvas.setAttribute('role', 'application');
      if (!canvas.ariaLabel) canvas.ariaLabel = 'The scene in three dimensions; Enter picks, Escape clears';
      const box = canvas.getBoundingClientRect(), on = tool() ? 'auto' : 'none';
      sheet.style.cssText = `position: fixed; left: ${box.left}px; top: ${box.top}px; z-index: 5;` +
        `width: ${box.width}px; height: ${box.height}px; pointer-events: ${on};` +
        `touch-action: none; cursor: crosshair`;
    }
  };
  setInterval(look, 250);
  look();
}
