/** THE table of endpoints: start reading here. */
import {
  createApplication,
  deleteApplication,
  getApplication,
  getApplicationByKey,
  listApplications,
  regenerateKey,
  updateApplication,
} from './endpoints/applications.ts';
import { consoleRoutes } from './endpoints/console-files.ts';
import { decide } from './endpoints/decisions.ts';
import { livez, readyz } from './endpoints/health.ts';
import { createKey, deleteKey, listKeys } from './endpoints/keys.ts';
import { listLogs } from './endpoints/logs.ts';
import { listPermissions } from './endpoints/permissions.ts';
import { authorizeSession, createSession, endSession, listSessions } from './endpoints/sessions.ts';
import { getTenant } from './endpoints/tenants.ts';
import { createToken, deleteToken, getToken, listTokens, updateToken } from './endpoints/tokens.ts';
import { getUsage } from './endpoints/usage.ts';
import type { Route } from './pipeline/route.ts';
import { documentation } from './reference/documentation.ts';

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
