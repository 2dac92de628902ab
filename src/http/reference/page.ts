/** Renders the OpenAPI document as one HTML page with inline style and script. */

import { hash } from 'node:crypto';
import palette from '../../../console/src/frame/palette.css' with { type: 'text' };
import { type Code, codes, problem } from '../../domain/error.ts';
import { type BuiltIn, builtIn, descriptionOf, hasTrait } from '../../domain/permission.ts';
import script from './client.js' with { type: 'text' };
import content from './content.css' with { type: 'text' };
import { fieldDetails, fieldTree, type Schemas, tree } from './fields.ts';
import frame from './frame.css' with { type: 'text' };
import { Html, html, inline, paragraphs, prose, type Section, sections } from './html.ts';
import media from './media.css' with { type: 'text' };
import { type Document, type OpenApiResponse, type Operation, problemJson } from './openapi.ts';
import type { Parameter } from './openapi-headers.ts';
import { figure, firstRequest, json, requestSample } from './samples.ts';

interface Group {
  readonly name: string;
  readonly description: string;
  readonly entries: Entry[];
}

const style = palette + frame + content + media;

/** Allows only the inline style and script, requests to this service, and images in `data:` URLs. The page cannot be framed. */
export const contentSecurityPolicy = [
  "default-src 'none'",
  `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
  `script-src 'sha256-${hash('sha256', script, 'base64')}'`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const arches = 'M3.5 21V11a8.5 8.5 0 0 1 17 0v10M8.5 21v-9a3.5 3.5 0 0 1 7 0v9';
const gate = html`<svg class="gate" viewBox="0 0 24 24" aria-hidden="true"><path d="${arches}"/></svg>`;
const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="${arches}" fill="none" stroke="#0f7681" stroke-width="2.4" stroke-linecap="round"/></svg>`;
const icon = `data:image/svg+xml,${encodeURIComponent(drawing)}`;

export function referencePage(document: Document): string {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const groups = document.tags.map((tag) => ({
    ...tag,
    entries: entries.filter(({ operation }) => operation.tags.includes(tag.name)),
  }));
  const { lead, rest } = sections(document.info.description);
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${document.info.title} API reference</title>
<link rel="icon" href="${icon}">
<style>${new Html(style)}</style>
<script>${new Html(script)}</script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
${navigation(document.info, groups, rest)}
<main id="content" tabindex="-1">
${introduction(document.info, lead, rest)}
${groups.map((group) => section(group, document))}
${errorSection(document)}
${permissionSection(entries)}
</main>
</body>
</html>
`;
  return page.toString();
}

function navigation({ title, version }: Document['info'], groups: Group[], topics: Section[]): Html {
  const link = ({ method, operation: { operationId, summary } }: Entry) =>
    html`<li><a href="#${operationId}"><span>${summary}</span> ${methodLabel(method)}</a></li>`;
  return html`<header class="bar">
<a class="brand" href="#content">${gate} ${title}</a>
<button type="button" popovertarget="menu">Menu</button>
</header>
<nav id="menu" popover aria-label="Contents">
<a class="brand" href="#content">${gate} ${title} <small>${version}</small></a>
<search hidden>
<input type="search" id="search" placeholder="Search" aria-label="Search the reference" aria-describedby="search-status" autocomplete="off" spellcheck="false">
<p id="search-status" role="status"></p>
<ul id="results"></ul>
</search>
<div id="contents">
<h2><a href="#content">Introduction</a></h2>
<ul>${topics.map(({ heading }) => html`<li><a href="#${topicId(heading)}">${heading}</a></li>`)}</ul>
${groups.map(
  ({ name, entries }) => html`<h2><a href="#tag-${name}">${name}</a></h2>
<ul>${entries.map(link)}</ul>`,
)}
<h2>More</h2>
<ul>
<li><a href="#errors">Error codes</a></li>
<li><a href="#permissions">Permissions</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
</ul>
</div>
</nav>`;
}

/** The prefix avoids a conflict with the list of error codes, which has the id `errors`. */
function topicId(heading: string): string {
  return `about-${heading.toLowerCase().replaceAll(' ', '-')}`;
}

function introduction({ title, version }: Document['info'], lead: string, topics: Section[]): Html {
  return html`<section class="hero">
<div>
<h1>${title} API</h1>
${prose(lead)}
<p class="quiet">Version ${version} · <a href="/openapi.json">OpenAPI document</a></p>
</div>
<div class="samples">${figure('First request', firstRequest)}</div>
</section>
<section class="notes" aria-label="Introduction">
${topics.map(
  ({ heading, body }) =>
    html`<div id="${topicId(heading)}"><h2><a href="#${topicId(heading)}">${heading}</a></h2>${prose(body)}</div>`,
)}
</section>`;
}

function section({ name, description, entries }: Group, { components }: Document): Html {
  return html`<section class="group" aria-labelledby="tag-${name}">
<header><h2 id="tag-${name}"><a href="#tag-${name}">${name}</a></h2>${prose(description)}</header>
${entries.map((entry) => operationArticle(entry, components.schemas))}
</section>`;
}

function errorSection({ components: { schemas, examples } }: Document): Html {
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

function permissionSection(entries: Entry[]): Html {
  return html`<section class="group" aria-labelledby="permissions">
<header><h2 id="permissions"><a href="#permissions">Permissions</a></h2>
<p>Permissions have the form <code>family:action</code>. These are built in, and unknown names in their families are rejected. Use any other family for permissions of your own services.</p></header>
<ul class="entries paired">${builtIn.map((name) => permissionEntry(name, entries))}</ul>
</section>`;
}

function permissionEntry(name: BuiltIn, entries: Entry[]): Html {
  const holders = hasTrait(name, 'browser')
    ? 'All types of keys'
    : `Not for public applications${hasTrait(name, 'session') ? '' : ' and sessions'}`;
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

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

function operationArticle({ method, path, operation }: Entry, schemas: Schemas): Html {
  const { operationId, summary, description } = operation;
  const text = paragraphs(description);
  const access = text.pop() ?? '';
  return html`<article class="operation" id="${operationId}" aria-labelledby="${operationId}-title">
<div class="text">
<h3 id="${operationId}-title"><a href="#${operationId}">${summary}</a></h3>
<p class="endpoint">${methodLabel(method)} <code>${path}</code></p>
<p class="access">${inline(access)}</p>
${text.map((paragraph) => html`<p>${inline(paragraph)}</p>`)}
${parameters('Path parameters', 'path', operation, schemas)}
${parameters('Query parameters', 'query', operation, schemas)}
${parameters('Headers', 'header', operation, schemas)}
${requestBody(operation, schemas)}
${successResponses(operation, schemas)}
${errorLinks(operation)}
</div>
<div class="samples">
${requestSample(method, path, operation)}
${responsesOf(operation).map(([status, { content }]) => {
  const example = content?.['application/json']?.example;
  return (
    example !== undefined &&
    figure(html`<span>Response <span class="status">${status}</span></span>`, json(example))
  );
})}
</div>
</article>`;
}

function methodLabel(method: string): Html {
  return html`<span class="method ${method}">${method.toUpperCase()}</span>`;
}

/** Every operation accepts this header, so only the introduction describes it. */
const commonHeader = 'SVC-REQUEST-ID';

function parameters(
  heading: string,
  location: Parameter['in'],
  operation: Operation,
  schemas: Schemas,
): Html | false {
  const matching = operation.parameters.filter((each) => each.in === location && each.name !== commonHeader);
  return matching.length > 0 && html`<h4>${heading}</h4>${tree(matching, schemas, 'request')}`;
}

function requestBody({ requestBody }: Operation, schemas: Schemas): Html | undefined {
  const content = requestBody && Object.values(requestBody.content)[0];
  if (!content) return undefined;
  const fields = fieldTree(content.schema, schemas, 'request');
  return html`<h4>Request body <span>${requestBody.description}</span></h4>${fields}`;
}

function responsesOf({ responses }: Operation): [status: string, response: OpenApiResponse][] {
  return Object.entries(responses).filter(
    (entry): entry is [string, OpenApiResponse] => !('$ref' in entry[1]),
  );
}

function successResponses(operation: Operation, schemas: Schemas): Html {
  const successes = responsesOf(operation).filter(([, { content }]) => !content?.[problemJson]);
  return html`<h4>Response</h4>
<ul class="responses">${successes.map((response) => responseItem(response, schemas))}</ul>`;
}

function responseItem([status, { description, content }]: [string, OpenApiResponse], schemas: Schemas): Html {
  const schema = content?.['application/json']?.schema;
  const line = html`<p><span class="status">${status}</span> ${inline(description)}${!content && ' No body.'}</p>`;
  return html`<li>${line}${schema && fieldDetails(schema, schemas, 'response')}</li>`;
}

function errorLinks(operation: Operation): Html | false {
  const links = responsesOf(operation).flatMap(([status, { content }]) =>
    Object.keys(content?.[problemJson]?.examples ?? {}).map(
      (code) =>
        html`<li><a href="#error-${code}"><span class="status">${status}</span> <code>${code}</code></a></li>`,
    ),
  );
  return links.length > 0 && html`<h4>Errors</h4><ul class="chips">${links}</ul>`;
}
