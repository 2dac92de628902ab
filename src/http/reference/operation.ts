/** Renders one operation: description, parameters, bodies and errors, with examples beside them. */

import { fieldDetails, fieldTree, type Schemas, tree } from './fields.ts';
import { type Html, html, inline, paragraphs } from './html.ts';
import { type OpenApiResponse, type Operation, problemJson } from './openapi.ts';
import type { Parameter } from './openapi-headers.ts';
import { figure, json, requestSample } from './samples.ts';

export interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export function operationArticle({ method, path, operation }: Entry, schemas: Schemas): Html {
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

export function methodLabel(method: string): Html {
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
  const content = requestBody?.content['application/json'];
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
