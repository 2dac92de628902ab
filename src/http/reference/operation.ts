/** One operation: what it needs, takes and answers, with commands to copy beside it. */

import { fieldDetails, fieldTree, parameterTree, type Schemas } from './fields.ts';
import { type Html, html } from './html.ts';
import { type Answer, type Operation, problemJson } from './openapi.ts';
import type { Parameter } from './openapi-types.ts';
import { inline, paragraphs } from './prose.ts';
import { curl, figure, json } from './samples.ts';

export interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export function operationArticle({ method, path, operation }: Entry, schemas: Schemas): Html {
  const { operationId, summary, description } = operation;
  const said = paragraphs(description);
  const need = said.pop() ?? '';
  return html`<article class="operation" id="${operationId}" aria-labelledby="${operationId}-title">
<div class="text">
<h3 id="${operationId}-title"><a href="#${operationId}">${summary}</a></h3>
<p class="endpoint">${methodLabel(method)} <code>${path}</code></p>
<p class="need">${inline(need)}</p>
${said.map((paragraph) => html`<p>${inline(paragraph)}</p>`)}
${parameters('path', operation, schemas)}
${parameters('query', operation, schemas)}
${parameters('header', operation, schemas)}
${body(operation, schemas)}
${replies(operation, schemas)}
${failures(operation)}
</div>
<div class="samples">
${figure('Request', curl(method, path, operation))}
${answersOf(operation).map(([status, { content }]) => {
  const example = content?.['application/json']?.example;
  return example !== undefined && figure(html`Reply <span class="status">${status}</span>`, json(example));
})}
</div>
</article>`;
}

export function methodLabel(method: string): Html {
  return html`<span class="method ${method}">${method.toUpperCase()}</span>`;
}

/** Every operation takes it, so it is said once, at the top. */
const everywhere = 'SVC-REQUEST-ID';

function parameters(place: Parameter['in'], operation: Operation, schemas: Schemas): Html | false {
  const here = operation.parameters.filter((each) => each.in === place && each.name !== everywhere);
  return here.length > 0 && html`<h4>In the ${place}</h4>${parameterTree(here, schemas)}`;
}

function body({ requestBody }: Operation, schemas: Schemas): Html | undefined {
  const content = requestBody?.content['application/json'];
  if (!content) return undefined;
  const fields = fieldTree(content.schema, schemas, 'request');
  return html`<h4>Body <span>${requestBody.description}</span></h4>${fields}`;
}

function answersOf({ responses }: Operation): [status: string, answer: Answer][] {
  return Object.entries(responses).filter((entry): entry is [string, Answer] => !('$ref' in entry[1]));
}

function replies(operation: Operation, schemas: Schemas): Html {
  const good = answersOf(operation).filter(([, { content }]) => !content?.[problemJson]);
  return html`<h4>Reply</h4>
<ul class="replies">${good.map((answer) => reply(answer, schemas))}</ul>`;
}

function reply([status, { description, content }]: [string, Answer], schemas: Schemas): Html {
  const schema = content?.['application/json']?.schema;
  const line = html`<p><span class="status">${status}</span> ${inline(description)}${!schema && ' No body.'}</p>`;
  return html`<li>${line}${schema && fieldDetails(schema, schemas, 'reply')}</li>`;
}

function failures(operation: Operation): Html | false {
  const chips = answersOf(operation).flatMap(([status, { content }]) =>
    Object.keys(content?.[problemJson]?.examples ?? {}).map(
      (code) =>
        html`<li><a href="#error-${code}"><span class="status">${status}</span> <code>${code}</code></a></li>`,
    ),
  );
  return chips.length > 0 && html`<h4>Failures</h4><ul class="chips">${chips}</ul>`;
}
