/** Every endpoint: method, path, access and handler. */
import { whoHasAccess } from './endpoints/access/access.ts';
import { adviseAccess } from './endpoints/access/advice.ts';
import { diffAccess } from './endpoints/access/diff.ts';
import { createReport } from './endpoints/access/report.ts';
import { updateApplication } from './endpoints/application-update.ts';
import {
  createApplication,
  deleteApplication,
  getApplication,
  getApplicationByKey,
  listApplications,
  regenerateKey,
} from './endpoints/applications.ts';
import { getAuthZenConfiguration } from './endpoints/authzen/configuration.ts';
import { evaluate, evaluateAll } from './endpoints/authzen/evaluations.ts';
import { searchActions, searchResources, searchSubjects } from './endpoints/authzen/searches.ts';
import { getConsole, getConsoleFile, openConsoleLink } from './endpoints/console-page.ts';
import {
  beginSignIn,
  finishSignIn,
  getConsoleSession,
  logOutByProvider,
  signOut,
} from './endpoints/console-session.ts';
import { decide } from './endpoints/decisions.ts';
import {
  allowUse,
  createDestination,
  deleteDestination,
  getDestination,
  listDestinations,
  listUsableDestinations,
  updateDestination,
} from './endpoints/destinations.ts';
import { getDocs, getDocsPage, getHome, openApiEndpoint } from './endpoints/docs.ts';
import { getFrame } from './endpoints/frames.ts';
import { livez, readyz } from './endpoints/health.ts';
import { createKey, deleteKey, listKeys } from './endpoints/keys.ts';
import { revokeKey } from './endpoints/leaked-keys.ts';
import { countLogs, listLogs } from './endpoints/logs.ts';
import { listOwnPermissions, listPermissions } from './endpoints/permissions.ts';
import { proxyDelete, proxyGet, proxyPatch, proxyPost, proxyPut } from './endpoints/proxy.ts';
import {
  quarantineApplication,
  quarantineSession,
  releaseApplication,
  releaseSession,
} from './endpoints/quarantine.ts';
import { countRequests } from './endpoints/request-counts.ts';
import {
  authorizeSession,
  createDelegation,
  createSession,
  endSession,
  endSessions,
  getSession,
  listSessions,
} from './endpoints/sessions.ts';
import { getTenant } from './endpoints/tenants.ts';
import { createToken, createTokens } from './endpoints/token-creation.ts';
import { exchangeToken } from './endpoints/token-exchange.ts';
import {
  deleteToken,
  deleteTokens,
  getToken,
  listTokens,
  replaceToken,
  searchTokens,
  updateToken,
} from './endpoints/tokens.ts';
import { getUsage } from './endpoints/usage.ts';
import { anyKey, keysOf, noKey, type Route, route } from './pipeline/route.ts';

// biome-ignore format: one line per route
const api: readonly Route[] = [
  route('POST',   '/applications',                  'application:create',            createApplication),
  route('GET',    '/applications',                  'application:read',              listApplications),
  route('GET',    '/applications/:id',              'application:read',              getApplication),
  route('GET',    '/applications/key',              'application:read',              getApplicationByKey),
  route('PUT',    '/applications/:id',              'application:update',            updateApplication),
  route('POST',   '/applications/:id/regenerate',   'application:update',            regenerateKey),
  route('DELETE', '/applications/:id',              'application:delete',            deleteApplication),
  route('POST',   '/applications/:id/keys',         'application:update',            createKey),
  route('GET',    '/applications/:id/keys',         'application:read',              listKeys),
  route('DELETE', '/applications/:id/keys/:key_id', 'application:update',            deleteKey),
  route('POST',   '/keys/revoke',                   noKey,                           revokeKey),
  route('POST',   '/oauth/token',                   noKey,                           exchangeToken),
  route('POST',   '/applications/:id/quarantine',   'application:update',            quarantineApplication),
  route('DELETE', '/applications/:id/quarantine',   'application:update',            releaseApplication),
  route('GET',    '/applications/:id/usage',        'application:read',              getUsage),
  route('POST',   '/sessions',                      keysOf('public'),                createSession),
  route('POST',   '/sessions/authorize',            keysOf('private', 'management'), authorizeSession),
  route('POST',   '/delegations',                   keysOf('private'),               createDelegation),
  route('GET',    '/sessions',                      'session:read',                  listSessions),
  route('GET',    '/sessions/:id',                  'session:read',                  getSession),
  route('DELETE', '/sessions/:id',                  'session:delete',                endSession),
  route('DELETE', '/sessions',                      'session:delete',                endSessions),
  route('POST',   '/sessions/:id/quarantine',       'session:delete',                quarantineSession),
  route('DELETE', '/sessions/:id/quarantine',       'session:delete',                releaseSession),
  route('POST',   '/tokens',                        'token:create',                  createToken),
  route('POST',   '/tokens/batch',                  'token:create',                  createTokens),
  route('GET',    '/tokens',                        'token:read',                    listTokens),
  route('GET',    '/tokens/:id',                    'token:read',                    getToken),
  route('PUT',    '/tokens/:id',                    'token:update',                  replaceToken),
  route('PATCH',  '/tokens/:id',                    'token:update',                  updateToken),
  route('DELETE', '/tokens/:id',                    'token:delete',                  deleteToken),
  route('DELETE', '/tokens',                        'token:delete',                  deleteTokens),
  route('POST',   '/tokens/search',                 'token:search',                  searchTokens),
  route('POST',   '/destinations',                  'destination:create',            createDestination),
  route('GET',    '/destinations',                  'destination:read',              listDestinations),
  route('GET',    '/destinations/:id',              'destination:read',              getDestination),
  route('PUT',    '/destinations/:id',              'destination:update',            updateDestination),
  route('DELETE', '/destinations/:id',              'destination:delete',            deleteDestination),
  route('DELETE', '/destinations/:id/stops/:token_id', 'destination:update',         allowUse),
  route('GET',    '/proxy',                         'token:use',                     listUsableDestinations),
  route('POST',   '/decisions',                     'decision:create',               decide),
  route('GET',    '/access/who',                    'access:review',                 whoHasAccess),
  route('GET',    '/access/diff',                   'access:review',                 diffAccess),
  route('GET',    '/access/advice',                 'access:review',                 adviseAccess),
  route('POST',   '/access/reports',                'access:review',                 createReport),
  route('POST',   '/access/v1/evaluation',          'decision:create',               evaluate),
  route('POST',   '/access/v1/evaluations',         'decision:create',               evaluateAll),
  route('POST',   '/access/v1/search/subject',      'access:review',                 searchSubjects),
  route('POST',   '/access/v1/search/resource',     'access:review',                 searchResources),
  route('POST',   '/access/v1/search/action',       'access:review',                 searchActions),
  route('GET',    '/.well-known/authzen-configuration', noKey,                       getAuthZenConfiguration),
  route('GET',    '/tenants/self',                  'tenant:read',                   getTenant),
  route('GET',    '/logs',                          'log:read',                      listLogs),
  route('GET',    '/logs/counts',                   'log:read',                      countLogs),
  route('GET',    '/requests/counts',               'log:read',                      countRequests),
  route('GET',    '/permissions',                   noKey,                           listPermissions),
  route('GET',    '/permissions/own',               anyKey,                          listOwnPermissions),
  route('GET',    '/livez',                         noKey,                           livez),
  route('GET',    '/readyz',                        noKey,                           readyz),
];

/** Requests to destinations. They are not served to people who signed in to the console by name. */
// biome-ignore format: one line per route
const proxy: readonly Route[] = [
  route('GET',    '/proxy/:name/*',                 'token:use',                     proxyGet),
  route('POST',   '/proxy/:name/*',                 'token:use',                     proxyPost),
  route('PUT',    '/proxy/:name/*',                 'token:use',                     proxyPut),
  route('PATCH',  '/proxy/:name/*',                 'token:use',                     proxyPatch),
  route('DELETE', '/proxy/:name/*',                 'token:use',                     proxyDelete),
];

const openApi: Route = route(
  'GET',
  '/openapi.json',
  noKey,
  openApiEndpoint(() => [...api, ...proxy, openApi]),
);

export const routes: readonly Route[] = [...api, openApi, route('GET', '/', noKey, getHome)];

/** The routes that the documentation describes. */
export const documentedRoutes: readonly Route[] = [...routes, ...proxy];

/** The routes of the API, to destinations, of the documentation and of the console. */
export const allRoutes: readonly Route[] = [
  ...routes,
  ...proxy,
  route('GET', '/docs', noKey, getDocs),
  route('GET', '/docs/*', noKey, getDocsPage),
  route('GET', '/console', noKey, getConsole),
  route('GET', '/console/:file', noKey, getConsoleFile),
  route('POST', '/console/link', noKey, openConsoleLink),
  { ...route('GET', '/console/api/session', noKey, getConsoleSession), servedTo: 'console' },
  { ...route('GET', '/console/api/sign-in', noKey, beginSignIn), servedTo: 'console' },
  { ...route('POST', '/console/api/sign-out', noKey, signOut), servedTo: 'console' },
  route('GET', '/console/api/callback/:provider', noKey, finishSignIn),
  route('POST', '/console/api/back-channel-logout', noKey, logOutByProvider),
];

/** The API for people who signed in by name: the cookie replaces the key. Served only if there are providers. */
export const consoleRoutes: readonly Route[] = api
  .filter(({ kind, name }) => kind !== 'open' || name === listPermissions.name)
  .map((each) => ({ ...each, path: `/console/api${each.path}`, servedTo: 'console' }));

const calledByFrames = [createSession, createToken, getToken].map(({ name }) => name);

/** The routes of the origin of the frames: the frames themselves, and what they call. */
export const framesRoutes: readonly Route[] = [
  route('GET', '/frames/v1/:file', noKey, getFrame),
  ...api.filter(({ name }) => calledByFrames.includes(name)),
].map((each) => ({ ...each, servedTo: 'frames' }));
