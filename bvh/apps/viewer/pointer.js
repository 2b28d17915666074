/* Reports the hovering pointer, and the time of a frame. viser reports clicks and rectangles, but no
   hovering, so the script writes the position of the pointer into the text field that follows,
   whose text viser sends like all that is typed, and hides that field. It fetches nothing. */
if (!window.bvhWatches) {
  window.bvhWatches = true;
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  const picture = () => [...document.querySelectorAll('canvas')].reduce(
    (a, b) => a && a.width * a.height >= b.width * b.height ? a : b, null);
  let sent = '';
  const found = () => {
    const anchor = document.getElementById('bvh-cursor');
    const field = anchor && [...document.querySelectorAll('input')].find(
      input => anchor.compareDocumentPosition(input) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (!field || field.tabIndex === -1) return field;
    let row = field;
    while (!row.parentElement.contains(anchor)) row = row.parentElement;
    row.style.cssText = 'height: 0; margin: 0; padding: 0; overflow: hidden; opacity: 0';
    row.setAttribute('aria-hidden', 'true');
    field.tabIndex = -1;
    return field;
  };
  const report = text => {
    const field = found();
    if (!field || text === sent) return;
    sent = text;
    write.call(field, text);
    field.dispatchEvent(new Event('input', {bubbles: true}));
  };
  document.addEventListener('pointermove', event => {
    const canvas = picture();
    if (!canvas || event.buttons) return;
    if (event.target !== canvas && !event.target.contains(canvas)) return report('');
    const box = canvas.getBoundingClientRect();
    const x = 100 * (event.clientX - box.left + 0.5) / box.width;
    const y = 100 * (event.clientY - box.top + 0.5) / box.height;
    report(x.toFixed(4) + ', ' + y.toFixed(4) + ' %');
  }, {capture: true, passive: true});
  document.addEventListener('pointerleave', () => report(''), {passive: true});
  let frames = 0, since = performance.now();
  const frame = now => {
    frames += 1;
    found();
    if (now - since > 500) {
      const place = document.getElementById('bvh-frame'), each = (now - since) / frames;
      if (place) place.textContent = `${each.toFixed(1)} ms (${(1000 / each).toFixed(0)} a second)`;
      [frames, since] = [0, now];
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
