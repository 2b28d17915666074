// Name unnamed controls for screen readers, four times a second because viser adds controls.
setInterval(() => {
  for (const each of document.querySelectorAll('button, [role=button], [role=slider], input')) {
    if (each.textContent.trim() || each.labels?.length || each.getAttribute('aria-label')) continue;
    const icon = each.querySelector('svg')?.getAttribute('class')?.match(/tabler-icon-([\w-]+)/);
    const kind = /close/i.test(each.className) ? 'close' : 'control';
    each.setAttribute('aria-label',
      each.title || icon?.[1].replaceAll('-', ' ') || each.placeholder || kind);
  }
}, 250);
