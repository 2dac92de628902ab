/** THE table of endpoints: start reading here. */
import {
  createApplication,
  deleteApplication,
  getApplication,
  getApplicationByKey,
  listApplications,
  regenerateKey,
  updateApplication,
} from './applications.ts';
import { consoleRoutes } from './console-files.ts';
import { decide } from './decisions.ts';
import { livez, readyz } from './health.ts';
import { createKey, deleteKey, listKeys } from './keys.ts';
import { listLogs } from './logs.ts';
import { listPermissions } from './permissions.ts';
import { documentation } from './reference.ts';
import type { Route } from './route.ts';
import { authorizeSession, createSession, endSession, listSessions } from './sessions.ts';
import { getTenant } from './tenants.ts';
import { createToken, deleteToken, getToken, listTokens, updateToken } from './tokens.ts';
import { getUsage } from './usage.ts';

const api: Route[] = [
  createApplication,
  listApplications,
  getApplicationByKey,
  getApplication,
  updateApplication,
  regenerateKey,
  deleteApplication,
  createKey,
  listKeys,
  deleteKey,
  getUsage,
  createSession,
  authorizeSession,
  listSessions,
  endSession,
  createToken,
  listTokens,
  getToken,
  updateToken,
  deleteToken,
  decide,
  getTenant,
  listLogs,
  listPermissions,
  livez,
  readyz,
];

export const routes: readonly Route[] = [...api, ...documentation(api)];

/** With what is only for the eyes. */
export const served: readonly Route[] = [...routes, ...consoleRoutes];
