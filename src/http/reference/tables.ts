/** What operations have in common: how they fail, and which permissions open them. */
import { type Code, codes, problem } from '../../domain/error.ts';
import { type BuiltIn, builtIn, descriptionOf, isA } from '../../domain/permission.ts';
import { fieldTree } from './fields.ts';
import { type Html, html } from './html.ts';
import type { Document } from './openapi.ts';
import type { Entry } from './operation.ts';
import { figure, json } from './samples.ts';

export function errorSection({ components: { schemas, examples } }: Document): Html {
  return html`<section class="group" aria-labelledby="errors">
<header><h2 id="errors"><a href="#errors">Errors</a></h2>
<p>Every failure has one of these codes. The <code>type</code> of a problem document leads here.</p></header>
<div class="operation">
<div class="text"><ul class="entries">${codes.map(errorEntry)}</ul></div>
<div class="samples">
${figure('A problem document', json(examples.validation_failed?.value))}
<h3 class="aside">Fields of a problem document</h3>
${fieldTree({ $ref: '#/components/schemas/Problem' }, schemas, 'reply')}
</div>
</div>
</section>`;
}

function errorEntry(code: Code): Html {
  const { status, title, detail } = problem(code);
  return html`<li id="error-${code}">
<h3><a href="#error-${code}"><code>${code}</code></a></h3>
<p><span class="status">${status}</span> ${title}</p>
<p>${detail}</p>
</li>`;
}

export function permissionSection(entries: Entry[]): Html {
  return html`<section class="group" aria-labelledby="permissions">
<header><h2 id="permissions"><a href="#permissions">Permissions</a></h2>
<p>What the service itself checks. In these families any other name is refused, since it would be a typo; all other families are yours, for what your own services guard.</p></header>
<ul class="entries paired">${builtIn.map((name) => permissionEntry(name, entries))}</ul>
</section>`;
}

function permissionEntry(name: BuiltIn, entries: Entry[]): Html {
  const holders = isA('browser', name)
    ? 'May be held by every kind of key'
    : 'Not for public Applications and Sessions';
  const links = entries
    .filter(({ operation }) => operation['x-permission'] === name)
    .map(({ operation: { operationId, summary } }) => html`<a href="#${operationId}">${summary}</a>`);
  return html`<li id="permission-${name}">
<h3><a href="#permission-${name}"><code>${name}</code></a></h3>
<p>${descriptionOf(name)}</p>
<p class="limits">${holders}${isA('management', name) && ' · Only those who hold it can hand it on'}</p>
${links.length > 0 && html`<p class="limits">Opens ${links.map((link, index) => [index > 0 && ', ', link])}</p>`}
</li>`;
}
