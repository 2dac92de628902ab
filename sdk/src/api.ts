// Made by npm run sdk from the declarations in src/http: change those, not this file.
export interface ApplicationWithKey {
  /** Its own, for as long as it lives. */
  id: string;
  /** The tenant that it belongs to. */
  tenant_id: string;
  /** What people call it. */
  name: string;
  /** `private`: for backends, where a key can be kept secret. `public`: for browsers and mobile apps. `management`: for managing the service itself. */
  type: 'private' | 'public' | 'management';
  /** What its key may do. */
  permissions: Array<string>;
  /** What its key may do in which container, and how much of the data it sees. */
  rules: Array<AccessRule>;
  /** The origins whose pages may use its key in a browser; absent if all may. */
  allowed_origins?: Array<string>;
  /** The Application that created it. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** The Application that last changed it; absent until then. */
  modified_by?: string;
  /** When it was last changed; absent until then. */
  modified_at?: string;
  /** From this moment on it is gone; absent if it stays. */
  expires_at?: string;
  /** When a key or a Session of it was last let in. Written once a minute; absent if never. */
  last_used_at?: string;
  /** Shown this once: only a digest of it is kept. */
  key: string;
}

export interface AccessRule {
  /** What the rule is for. */
  description?: string;
  /** Of the rules that match, the one with the lowest decides. */
  priority: number;
  /** Applications only: the rule is about the Tokens in this container and below. Management Applications may leave it out, which means all of them. */
  container?: string;
  /** Sessions only: the rule is about the Tokens of which all of this holds. */
  conditions?: Array<AccessRuleCondition>;
  /** What a reply shows of the data. `redact`: nothing. `mask`: its mask, or nothing where there is none. `reveal`: all of it. */
  transform: 'redact' | 'mask' | 'reveal';
  /** What the rule grants. */
  permissions: Array<string>;
}

export interface AccessRuleCondition {
  /** What of the Token is looked at. */
  attribute: 'id' | 'container';
  /** How it is compared. Containers are compared by whole segments, ignoring case. */
  operator: 'starts_with' | 'equals';
  /** What it is compared with: for `container`, a path such as `/pci/high/`. */
  value: string;
}

export interface Problem {
  /** Where this kind of failure is explained. */
  type: string;
  /** The kind of failure, in words that do not change with the request. */
  title: string;
  /** The status of the response. */
  status: number;
  /** What is wrong this time, or what to do about it. */
  detail: string;
  /** The path of the request. */
  instance: string;
  /** The kind of failure, for programs. */
  code:
    | 'validation_failed'
    | 'unauthenticated'
    | 'permission_missing'
    | 'grant_not_held'
    | 'key_type_refused'
    | 'origin_refused'
    | 'reveal_required'
    | 'not_found'
    | 'nonce_not_found'
    | 'path_unknown'
    | 'method_not_allowed'
    | 'nonce_used'
    | 'too_many_keys'
    | 'token_exists'
    | 'idempotency_running'
    | 'too_large'
    | 'unsupported_media_type'
    | 'idempotency_mismatch'
    | 'too_many_requests'
    | 'internal'
    | 'unavailable'
    | 'storage_full';
  /** As in the `SVC-REQUEST-ID` header. */
  request_id: string;
  /** Only for input that is not valid: what must change, by the dotted path of the part. */
  errors?: Record<string, Array<string>>;
}

export interface ApplicationCreate {
  /** What people call it. No control or bidirectional control characters. */
  name: string;
  /** `private`: for backends, where a key can be kept secret. `public`: for browsers and mobile apps. `management`: for managing the service itself. */
  type: 'private' | 'public' | 'management';
  /** What it may do. Must be non-empty when there are no rules. */
  permissions?: Array<string>;
  /** What it may do with which data. Must be non-empty when there are no permissions. */
  rules?: Array<AccessRule>;
  /** For a public Application: the origins whose pages may use its key, and the keys of its Sessions, in a browser. Absent or empty, all may. */
  allowed_origins?: Array<string>;
  /** From this moment on it is gone. Must be in the future. */
  expires_at?: string;
}

export interface ApplicationPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<Application>;
}

export interface Pagination {
  /** How many entries there are in all. Absent with `start`, and for lists too long to count. */
  total_items?: number;
  /** Which page this is. Not with `start`. */
  page_number?: number;
  /** How many entries a page has at most. */
  page_size: number;
  /** How many pages there are. Absent with `total_items`. */
  total_pages?: number;
  /** What to send as `start` for the entries after these. Absent at the end of the list; a page that is short or empty may have it. */
  next?: string;
}

export interface Application {
  /** Its own, for as long as it lives. */
  id: string;
  /** The tenant that it belongs to. */
  tenant_id: string;
  /** What people call it. */
  name: string;
  /** `private`: for backends, where a key can be kept secret. `public`: for browsers and mobile apps. `management`: for managing the service itself. */
  type: 'private' | 'public' | 'management';
  /** What its key may do. */
  permissions: Array<string>;
  /** What its key may do in which container, and how much of the data it sees. */
  rules: Array<AccessRule>;
  /** The origins whose pages may use its key in a browser; absent if all may. */
  allowed_origins?: Array<string>;
  /** The Application that created it. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** The Application that last changed it; absent until then. */
  modified_by?: string;
  /** When it was last changed; absent until then. */
  modified_at?: string;
  /** From this moment on it is gone; absent if it stays. */
  expires_at?: string;
  /** When a key or a Session of it was last let in. Written once a minute; absent if never. */
  last_used_at?: string;
}

export interface ApplicationUpdate {
  /** What people call it. No control or bidirectional control characters. */
  name: string;
  /** What it may do. Must be non-empty when there are no rules. */
  permissions?: Array<string>;
  /** What it may do with which data. Must be non-empty when there are no permissions. */
  rules?: Array<AccessRule>;
  /** For a public Application: the origins whose pages may use its key, and the keys of its Sessions, in a browser. Absent, they stay as they are; empty, all may. */
  allowed_origins?: Array<string>;
  /** Cannot be changed, but may be sent back as it was fetched. */
  id?: string;
  /** Cannot be changed, but may be sent back as it was fetched. */
  tenant_id?: string;
  /** Cannot be changed, but may be sent back as it was fetched. */
  type?: 'private' | 'public' | 'management';
  /** Cannot be changed, but may be sent back as it was fetched. */
  created_by?: string;
  /** Cannot be changed, but may be sent back as it was fetched. */
  created_at?: string;
  /** Cannot be changed, but may be sent back as it was fetched. */
  modified_by?: string;
  /** Cannot be changed, but may be sent back as it was fetched. */
  modified_at?: string;
  /** Cannot be changed, but may be sent back as it was fetched. */
  expires_at?: string;
  /** Moves by itself, so whatever is sent back is ignored. */
  last_used_at?: string;
}

export interface ApplicationKeyCreated {
  /** Of the key, by which it is deleted. */
  id: string;
  /** Its last four characters, by which people tell keys apart. */
  ending: string;
  /** The Application that made it, as far as that is known. */
  created_by?: string;
  /** When it was made. */
  created_at: string;
  /** When it was last let in. Written once a minute; absent if never. */
  last_used_at?: string;
  /** Shown this once: only a digest of it is kept. */
  key: string;
}

export interface ApplicationKeys {
  /** At most 3. */
  data: Array<ApplicationKey>;
}

export interface ApplicationKey {
  /** Of the key, by which it is deleted. */
  id: string;
  /** Its last four characters, by which people tell keys apart. */
  ending: string;
  /** The Application that made it, as far as that is known. */
  created_by?: string;
  /** When it was made. */
  created_at: string;
  /** When it was last let in. Written once a minute; absent if never. */
  last_used_at?: string;
}

export interface ApplicationUsage {
  /** When it was last used at all; absent if never. */
  last_used_at?: string;
  /** What its grants were used for, the latest first. At most 500: if there are more, containers are merged into their parents, then the least recently used permissions are dropped. */
  uses: Array<Use>;
  /** Grants, as they are now, of which no use is on record: they may not be needed. */
  unused: Array<UnusedGrant>;
}

export interface Use {
  /** Which permission. */
  permission: string;
  /** In which container, in lower case: `/` for what has none. Where there were many, it stands for those below it, too. */
  container: string;
  /** When it was last used there. */
  last_used_at: string;
}

export interface UnusedGrant {
  /** Which rule of the Application, counted from 1, or its plain permissions. */
  rule: number | 'permissions';
  /** What it grants. */
  permission: string;
  /** In which container and below. */
  container: string;
}

export interface SessionCreated {
  /** For the browser that made the Session, and nobody else. Shown this once. */
  session_key: string;
  /** For the backend: authorizes the Session, once. */
  nonce: string;
  /** When it ends, authorized or not. */
  expires_at: string;
}

export interface SessionAuthorize {
  /** From the reply to creating the Session. */
  nonce: string;
  /** What it may do. Must be non-empty when there are no rules. */
  permissions?: Array<string>;
  /** What it may do with which data. Must be non-empty when there are no permissions. */
  rules?: Array<AccessRule>;
  /** When the Session ends, sooner or later than it would by itself: no later than the longest lifetime after its creation, nor than its Application. */
  expires_at?: string;
}

export interface SessionPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<Session>;
}

export interface Session {
  /** Its own, by which the audit log names it and by which it is ended. */
  id: string;
  /** The tenant that it belongs to. */
  tenant_id: string;
  /** The public Application whose key made it. */
  application_id: string;
  /** `waiting`: nobody has authorized it, so it can do nothing. `authorized`: its nonce is spent. */
  state: 'waiting' | 'authorized';
  /** What it may do; nothing while it waits. */
  permissions: Array<string>;
  /** What it may do with which data, and how much of it it sees. */
  rules: Array<AccessRule>;
  /** When it was made. */
  created_at: string;
  /** When it was authorized; absent while it waits. */
  authorized_at?: string;
  /** The Application that authorized it; absent while it waits. */
  authorized_by?: string;
  /** Whether it can never do more than the key that authorized it can do at that moment. */
  ceiling: boolean;
  /** From this moment on it is gone. */
  expires_at: string;
}

export interface Token {
  /** Unique within the tenant. */
  id: string;
  /** The tenant that owns it. */
  tenant_id: string;
  /** A word of your own for what it is. */
  type: string;
  /** Where it lies. */
  container: string;
  /** The plaintext, or what the mask makes of it, or absent: as the transform has it. */
  data?: unknown;
  /** The mask itself, not what it makes of the data. */
  mask?: unknown;
  /** Names and values, kept in the clear. */
  metadata?: Record<string, string>;
  /** The Application that created it. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** The Application that last changed it; absent until then. */
  modified_by?: string;
  /** When it was last changed; absent until then. */
  modified_at?: string;
  /** From this moment on it is gone. */
  expires_at?: string;
}

export interface TokenCreate {
  /** A word of your own for what it is. */
  type?: string;
  /** Where it lies; rules speak of it. */
  container?: string;
  /** What is kept secret: any JSON but null. */
  data: unknown;
  /** What others see of the data: Liquid outputs in a string, object or list. */
  mask?: string | Record<string, unknown> | Array<unknown>;
  /** Names and values that lists can be filtered by. Kept in the clear. */
  metadata?: Record<string, string>;
  /** From this moment on it is gone. Must be in the future. */
  expires_at?: string;
  /** Your own, or one is made. */
  id?: string;
}

export interface TokenPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<Token>;
}

export interface TokenPatch {
  /** Another type; `null` for the default. */
  type?: string | null;
  /** Another container; `null` for the default. */
  container?: string | null;
  /** Other data; an object is merged into one that is there. */
  data?: unknown;
  /** Another mask; `null` for none. */
  mask?: unknown;
  /** Entries to set, or with `null` to remove; `null` for none at all. */
  metadata?: Record<string, unknown> | null;
  /** Another moment, in the future; `null` for never. */
  expires_at?: string | null;
}

export interface Decision {
  /** Whether the credential may do it. */
  allowed: boolean;
  /** How much of the data to show. Absent if denied. */
  transform?: 'redact' | 'mask' | 'reveal';
  /** What decided, in words. */
  reason: string;
  /** The rule that allowed it. */
  rule?: DecidingRule;
  /** The smallest grant that would allow it. Absent if allowed, if the credential is not valid, and where it is the grant of an authorizer that the caller may not see. */
  missing?: MissingGrant;
  /** Every rule in the order in which they decide. Only with `explain`. */
  trace?: Array<DecisionStep>;
  /** Whose credential it is; absent when it is not valid. */
  principal?: Principal;
}

export interface DecidingRule {
  /** Whose rule it is. */
  of: 'application' | 'session' | 'authorizer';
  /** Which one, counted from 1, or the plain permissions. */
  rule: number | 'permissions';
  /** What the rule says it is for. */
  description?: string;
}

export interface MissingGrant {
  /** The permission. */
  permission: string;
  /** The container to grant it on. Absent for a grant that no container narrows. */
  container?: string;
}

export interface DecisionStep {
  /** Whose rule it is. */
  of: 'application' | 'session' | 'authorizer';
  /** Which one, counted from 1, or the plain permissions. */
  rule: number | 'permissions';
  /** Of the rule. The plain permissions have none: they come last. */
  priority?: number;
  /** How much of the data it shows. */
  transform: 'redact' | 'mask' | 'reveal';
  /** Whether it grants the permission. */
  grants: boolean;
  /** Whether it is about the resource. */
  matches: boolean;
  /** Why it is about the resource, or is not. */
  why: string;
}

export interface Principal {
  /** What the credential belongs to. */
  kind: 'application' | 'session';
  /** The id of that Application or Session. */
  id: string;
  /** The Application itself, or the one that the Session belongs to. */
  application_id: string;
}

export interface Decisions {
  /** Whose credential it is; absent when it is not valid. */
  principal?: Principal;
  /** One for each resource, in their order. */
  decisions: Array<Outcome>;
}

export interface Outcome {
  /** Whether the credential may do it. */
  allowed: boolean;
  /** How much of the data to show. Absent if denied. */
  transform?: 'redact' | 'mask' | 'reveal';
  /** What decided, in words. */
  reason: string;
  /** The rule that allowed it. */
  rule?: DecidingRule;
  /** The smallest grant that would allow it. Absent if allowed, if the credential is not valid, and where it is the grant of an authorizer that the caller may not see. */
  missing?: MissingGrant;
  /** Every rule in the order in which they decide. Only with `explain`. */
  trace?: Array<DecisionStep>;
}

export interface DecisionRequest {
  /** The key that was shown to you, whatever it is. */
  credential: string;
  /** What it is to be used for. */
  permission: string;
  /** What it is to be used on; without it, only grants for everything count. */
  resource?: Resource;
  /** Several at once, instead of `resource`. */
  resources?: Array<Resource>;
  /** Whether to add `trace`. It takes more time and a larger reply. */
  explain?: boolean | null;
}

export interface Resource {
  /** What rules compare as `id`. */
  id?: string;
  /** What rules compare as `container`. */
  container?: string;
}

export interface Tenant {
  /** Its own, for as long as it lives. */
  id: string;
  /** What its operator calls it. */
  name: string;
  /** When it was created. */
  created_at: string;
  /** How many Applications it has. Absent if there are too many to count. */
  applications?: number;
}

export interface LogEntryPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<LogEntry>;
}

export interface LogEntry {
  /** Of the entry. */
  id: string;
  /** Whose it is. */
  tenant_id?: string;
  /** When. */
  at: string;
  /** Who. */
  actor: {
    /** What kind of actor. unknown: the entry was changed in the database, and cannot be read. */
    kind: 'application' | 'session' | 'operator' | 'anonymous' | 'unknown';
    /** Of the Application or the Session. */
    id?: string;
    /** The Application itself, or the one that the Session belongs to. */
    application_id?: string;
  };
  /** What, such as application.update. */
  operation: string;
  /** On what. */
  entity?: {
    /** What kind of thing. */
    kind: string;
    /** Its id. */
    id: string;
  };
  /** denied: the key was valid but not allowed. failed: there was no valid key, and so no tenant whose log would show it. */
  result: 'success' | 'denied' | 'failed';
  /** The code of the problem, for what did not succeed. */
  reason?: string;
  /** From where, as far as it is known. */
  from: {
    /** The address. */
    ip?: string;
    /** What the client called itself. */
    user_agent?: string;
  };
  /** Of the request. */
  request_id?: string;
  /** Of the trace that the request said it is part of. */
  trace_id?: string;
  /** For an update: every field that changed. Of data that is sealed, only that it changed. */
  difference?: Record<
    string,
    {
      from?: unknown;
      to?: unknown;
    }
  >;
  /** How many of the same kind this entry stands for, if more than one. */
  count?: number;
}

export interface Permission {
  /** As grants name it. */
  name: string;
  /** What it allows. */
  description: string;
  /** Whether a public Application or a Session may hold it. */
  browser: boolean;
  /** Whether only those who hold it may hand it on. */
  management: boolean;
}

export interface Operations {
  /** Create an Application */
  createApplication: { input: { body: ApplicationCreate }; reply: ApplicationWithKey };
  /** List Applications */
  listApplications: {
    input: {
      query?: {
        /** Which page, from 1. */
        page?: number;
        /** How many entries a page has at most. */
        size?: number;
        /** Go on behind this cursor, the `next` of an earlier reply. Totals are left out then. Not together with `page`. */
        start?: string;
        /** Only those with these ids: repeated, or separated by commas. */
        id?: Array<string>;
        /** Only those of this type. */
        type?: 'private' | 'public' | 'management';
        /** Only those with this in their name, in any case. */
        name?: string;
        /** Only those that expire before this moment, to be warned of them in time. */
        expires_before?: string;
      };
    };
    reply: ApplicationPage;
  };
  /** Get the Application of the key that is shown */
  getApplicationByKey: { input: Record<never, never>; reply: Application };
  /** Get an Application */
  getApplication: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
    };
    reply: Application;
  };
  /** Update an Application */
  updateApplication: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
      body: ApplicationUpdate;
    };
    reply: Application;
  };
  /** Delete an Application */
  deleteApplication: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
    };
    reply: undefined;
  };
  /** Regenerate the key of an Application */
  regenerateKey: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
    };
    reply: ApplicationWithKey;
  };
  /** Add a key to an Application */
  createKey: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
    };
    reply: ApplicationKeyCreated;
  };
  /** List the keys of an Application */
  listKeys: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
    };
    reply: ApplicationKeys;
  };
  /** Delete a key of an Application */
  deleteKey: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
        /** The id of the key. */
        key_id: string;
      };
    };
    reply: undefined;
  };
  /** See what an Application makes use of */
  getUsage: {
    input: {
      params: {
        /** The id of the Application. */
        id: string;
      };
    };
    reply: ApplicationUsage;
  };
  /** Create a Session */
  createSession: { input: Record<never, never>; reply: SessionCreated };
  /** List Sessions */
  listSessions: {
    input: {
      query?: {
        /** Which page, from 1. */
        page?: number;
        /** How many entries a page has at most. */
        size?: number;
        /** Go on behind this cursor, the `next` of an earlier reply. Totals are left out then. Not together with `page`. */
        start?: string;
        /** Only those with these ids: repeated, or separated by commas. */
        id?: Array<string>;
        /** Only those made with a key of this Application. */
        application_id?: string;
        /** Only those that this Application authorized. */
        authorized_by?: string;
        /** Only those that wait, or only those that are authorized. */
        state?: 'waiting' | 'authorized';
      };
    };
    reply: SessionPage;
  };
  /** Authorize a Session */
  authorizeSession: { input: { body: SessionAuthorize }; reply: undefined };
  /** End a Session */
  endSession: {
    input: {
      params: {
        /** The id of the Session. */
        id: string;
      };
    };
    reply: undefined;
  };
  /** Create a Token */
  createToken: { input: { body: TokenCreate }; reply: Token };
  /** List Tokens */
  listTokens: {
    input: {
      query?: {
        /** Which page, from 1. */
        page?: number;
        /** How many entries a page has at most. */
        size?: number;
        /** Go on behind this cursor, the `next` of an earlier reply. Totals are left out then. Not together with `page`. */
        start?: string;
        /** Only those with these ids: repeated, or separated by commas. */
        id?: Array<string>;
        /** Only those of this type. */
        type?: string;
        /** Only those in this container and below. */
        container?: string;
        /** Only those with this metadata, as `metadata.NAME=VALUE`; at most 10 of them. */
        metadata?: Record<string, string>;
      };
    };
    reply: TokenPage;
  };
  /** Get a Token */
  getToken: {
    input: {
      params: {
        /** The id of the Token. */
        id: string;
      };
    };
    reply: Token;
  };
  /** Update a Token */
  updateToken: {
    input: {
      params: {
        /** The id of the Token. */
        id: string;
      };
      body: TokenPatch;
    };
    reply: Token;
  };
  /** Delete a Token */
  deleteToken: {
    input: {
      params: {
        /** The id of the Token. */
        id: string;
      };
    };
    reply: undefined;
  };
  /** Ask whether a credential may do something, and why */
  decide: { input: { body: DecisionRequest }; reply: Decision | Decisions };
  /** Get the tenant of the key that is shown */
  getTenant: { input: Record<never, never>; reply: Tenant };
  /** Read the audit log */
  listLogs: {
    input: {
      query?: {
        /** How many entries a page has at most. */
        size?: number;
        /** Go on behind this cursor, the `next` of an earlier reply. Totals are left out then. Not together with `page`. */
        start?: string;
        /** Only what this Application or Session did. */
        actor?: string;
        /** Only what was done to the thing with this id. */
        entity?: string;
        /** Only this operation, such as application.update. */
        operation?: string;
        /** Only what came out like this. */
        result?: 'success' | 'denied' | 'failed';
        /** Only from this moment on. */
        from?: string;
        /** Only before this moment. */
        to?: string;
      };
    };
    reply: LogEntryPage;
  };
  /** List the built-in permissions */
  listPermissions: {
    input: Record<never, never>;
    reply: {
      /** Every one of them, in no more than one page. */
      data: Array<Permission>;
    };
  };
  /** Whether the process runs */
  live: {
    input: Record<never, never>;
    reply: {
      /** Any other state is a failure. */
      status: 'ok';
    };
  };
  /** Whether to send requests here */
  ready: {
    input: Record<never, never>;
    reply: {
      /** Any other state is a failure. */
      status: 'ok';
    };
  };
}

export const operations = {
  createApplication: ['POST', '/applications'],
  listApplications: ['GET', '/applications'],
  getApplicationByKey: ['GET', '/applications/key'],
  getApplication: ['GET', '/applications/{id}'],
  updateApplication: ['PUT', '/applications/{id}'],
  deleteApplication: ['DELETE', '/applications/{id}'],
  regenerateKey: ['POST', '/applications/{id}/regenerate'],
  createKey: ['POST', '/applications/{id}/keys'],
  listKeys: ['GET', '/applications/{id}/keys'],
  deleteKey: ['DELETE', '/applications/{id}/keys/{key_id}'],
  getUsage: ['GET', '/applications/{id}/usage'],
  createSession: ['POST', '/sessions'],
  listSessions: ['GET', '/sessions'],
  authorizeSession: ['POST', '/sessions/authorize'],
  endSession: ['DELETE', '/sessions/{id}'],
  createToken: ['POST', '/tokens'],
  listTokens: ['GET', '/tokens'],
  getToken: ['GET', '/tokens/{id}'],
  updateToken: ['PATCH', '/tokens/{id}'],
  deleteToken: ['DELETE', '/tokens/{id}'],
  decide: ['POST', '/decisions'],
  getTenant: ['GET', '/tenants/self'],
  listLogs: ['GET', '/logs'],
  listPermissions: ['GET', '/permissions'],
  live: ['GET', '/livez'],
  ready: ['GET', '/readyz'],
} as const satisfies Record<keyof Operations, readonly [method: string, path: string]>;
