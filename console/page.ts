/** The HTML page of the console. */
const arches = 'M3.5 21V11a8.5 8.5 0 0 1 17 0v10M8.5 21v-9a3.5 3.5 0 0 1 7 0v9';
const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="${arches}" fill="none" stroke="#0f7681" stroke-width="2.4" stroke-linecap="round"/></svg>`;

/** `next` is the script that `script` loads. It is downloaded at the same time. */
export function page(script: string, next: string, style: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sallyport</title>
<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(drawing)}">
<link rel="stylesheet" href="${style}">
<script type="module" src="${script}"></script>
<link rel="modulepreload" href="${next}">
</head>
<body>
<div id="root"><div class="sign-in" aria-busy="true"><span class="brand-mark"><svg width="28" height="28" viewBox="0 0 24 24" fill="none" stroke="currentcolor" stroke-width="2" stroke-linecap="round" aria-hidden="true"><path d="${arches}"/></svg></span></div></div>
<noscript>The console needs JavaScript. The command line offers the same functions.</noscript>
</body>
</html>
`;
}
