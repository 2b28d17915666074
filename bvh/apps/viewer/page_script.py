"""Script of the page: it reports the hovering pointer, and the time of a frame.

viser reports clicks and rectangles, but no hovering. So a script writes the position of the pointer
into the page's text field "Cursor", whose text viser sends like all that is typed. It starts in the
`onload` handler of an image, because browsers do not run scripts in HTML that is added later. It
fetches nothing.
"""

from __future__ import annotations

import html

_SCRIPT = """
if (!window.bvhWatches) {
  window.bvhWatches = true;
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  const picture = () => [...document.querySelectorAll('canvas')].reduce(
    (a, b) => a && a.width * a.height >= b.width * b.height ? a : b, null);
  let sent = '';
  const report = text => {
    const anchor = document.getElementById('bvh-cursor');
    if (!anchor || text === sent) return;
    const field = [...document.querySelectorAll('input')].find(
      input => anchor.compareDocumentPosition(input) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (!field || field === document.activeElement) return;
    sent = text;
    write.call(field, text);
    field.dispatchEvent(new Event('input', {bubbles: true}));
  };
  document.addEventListener('pointermove', event => {
    const canvas = picture();
    if (!canvas || event.buttons) return;
    const inside = event.target === canvas || event.target.contains(canvas);
    if (!inside) return report('');
    const box = canvas.getBoundingClientRect();
    const x = 100 * (event.clientX - box.left + 0.5) / box.width;
    const y = 100 * (event.clientY - box.top + 0.5) / box.height;
    report(x.toFixed(4) + ', ' + y.toFixed(4) + ' %');
  }, {capture: true, passive: true});
  document.addEventListener('pointerleave', () => report(''), {passive: true});
  let frames = 0, since = performance.now();
  const frame = now => {
    frames += 1;
    if (now - since > 500) {
      const place = document.getElementById('bvh-frame');
      if (place) {
        const each = (now - since) / frames;
        place.textContent = each.toFixed(1) + ' ms (' + (1000 / each).toFixed(0) + ' a second)';
      }
      frames = 0;
      since = now;
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
"""
_PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


def watching_html() -> str:
    """Return the HTML that starts the script and marks the text field after it."""
    return (
        f'<span id="bvh-cursor"></span><img alt="" src="{_PIXEL}" '
        f'onload="{html.escape(_SCRIPT)}" style="display:none">'
    )


def cursor_of(text: str) -> tuple[float, float] | None:
    """Return the position in the text field as shares of the picture, or None.

    Shares, because the page reduces its number of pixels when it has much to draw.
    """
    try:
        x, y = (float(part) for part in text.replace("%", "").split(","))
    except ValueError:
        return None
    return x / 100.0, y / 100.0
