/** NestJS on Express: a decorator that protects a handler or a controller, and the guard behind it. */
import { HttpException, UseGuards } from '@nestjs/common';
import { check, checkOptions, fromNodeRequest, type GuardOptions, type NodeRequest } from './check.ts';
import { SallyportError } from './errors.ts';
import { allowResponse, type ExpressResponse } from './express-response.ts';

/** The part of Nest's `ExecutionContext` that the guard uses. */
export interface NestContext {
  getType(): string;
  switchToHttp(): { getRequest<T>(): T; getResponse<T>(): T; getNext<T>(): T };
}

/**
 * A guard for `@UseGuards()`, `app.useGlobalGuards()` or the provider `APP_GUARD`. A denied request throws an
 * `HttpException` whose response is a problem document. The decision is in `res.locals.decision`.
 */
export function guardNest<R extends NodeRequest = NodeRequest>(options: GuardOptions<R>) {
  checkOptions('guardNest', options);
  return {
    canActivate: async (context: NestContext): Promise<boolean> => {
      if (context.getType() !== 'http') throw new SallyportError('guardNest: only for HTTP requests');
      const http = context.switchToHttp();
      const response = http.getResponse<NestResponse>();
      if (typeof response.locals !== 'object')
        throw new SallyportError('guardNest: needs @nestjs/platform-express; with Fastify, use guardFastify');
      const result = await check(options, fromNodeRequest(http.getRequest<R>()));
      if (!result.allowed) {
        for (const [name, value] of Object.entries(result.headers)) response.setHeader(name, value);
        keepContentType(response, result.problem);
        throw new HttpException(result.problem, result.status);
      }
      allowResponse(response, result, options, http.getNext<(error: unknown) => void>());
      return true;
    },
  };
}

type NestResponse = ExpressResponse & { json(body: unknown): unknown };

/** Nest sends objects as `application/json`. The type of the problem is set again when it is sent. */
function keepContentType(response: NestResponse, problem: object): void {
  const send = response.json.bind(response);
  response.json = (body) => {
    if (body === problem) response.setHeader('Content-Type', 'application/problem+json');
    return send(body);
  };
}

/** Protects a handler, or all handlers of a controller: `@RequirePermission({ client, permission, fields })`. */
export function RequirePermission<R extends NodeRequest = NodeRequest>(
  options: GuardOptions<R>,
): MethodDecorator & ClassDecorator {
  return UseGuards(guardNest(options));
}
