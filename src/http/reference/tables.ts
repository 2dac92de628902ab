/** The lists of error codes and permissions. */
import { type Code, codes, problem } from '../../domain/error.ts';
import { type BuiltIn, builtIn, descriptionOf, hasTrait } from '../../domain/permission.ts';
import { fieldTree } from './fields.ts';
import { type Html, html } from './html.ts';
import type { Document } from './openapi.ts';
import type { Entry } from './operation.ts';
import { inline } from './prose.ts';
import { figure, json } from './samples.ts';

export function errorSection({ components: { schemas, examples } }: Document): Html {
  return html`<section class="group" aria-labelledby="errors">
<header><h2 id="errors"><a href="#errors">Error codes</a></h2>
<p>Every error has one of these codes. The <code>type</code> of an error links to its entry here.</p></header>
<div class="operation">
<div class="text"><ul class="entries">${codes.map(errorEntry)}</ul></div>
<div class="samples">
${figure('Example of an error', json(examples.validation_failed?.value))}
<h3 class="aside">Fields of an error</h3>
${fieldTree({ $ref: '#/components/schemas/Problem' }, schemas, 'response')}
</div>
</div>
</section>`;
}

function errorEntry(code: Code): Html {
  const { status, title, detail } = problem(code);
  return html`<li id="error-${code}">
<h3><a href="#error-${code}"><code>${code}</code></a></h3>
<p><span class="status">${status}</span> ${title}</p>
<p>${inline(detail)}</p>
</li>`;
}

export function permissionSection(entries: Entry[]): Html {
  return html`<section class="group" aria-labelledby="permissions">
<header><h2 id="permissions"><a href="#permissions">Permissions</a></h2>
<p>Permissions have the form <code>family:action</code>. These are built in, and unknown names in their families are rejected. Use any other family for permissions of your own services.</p></header>
<ul class="entries paired">${builtIn.map((name) => permissionEntry(name, entries))}</ul>
</section>`;
}

function permissionEntry(name: BuiltIn, entries: Entry[]): Html {
  const holders = hasTrait(name, 'browser')
    ? 'All types of keys'
    : 'Not for public applications and sessions';
  const links = entries
    .filter(({ operation }) => operation['x-permission'] === name)
    .map(({ operation: { operationId, summary } }) => html`<a href="#${operationId}">${summary}</a>`);
  return html`<li id="permission-${name}">
<h3><a href="#permission-${name}"><code>${name}</code></a></h3>
<p>${descriptionOf(name)}</p>
<p class="limits">${holders}${hasTrait(name, 'management') && ' · Can only be granted by a key that holds it'}</p>
${links.length > 0 && html`<p class="limits">Required for ${links.map((link, index) => [index > 0 && ', ', link])}</p>`}
</li>`;
}
