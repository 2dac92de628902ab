// Made by npm run sdk from the declarations in src/http: change those, not this file.
export interface ApplicationWithKey {
  /** Unique identifier of the application. */
  id: string;
  /** The tenant that the application belongs to. */
  tenant_id: string;
  /** Display name. */
  name: string;
  /** `private`: for backends that can store a key secretly. `public`: for browsers and mobile apps. `management`: for managing the service. */
  type: 'private' | 'public' | 'management';
  /** Permissions of its keys, without a rule. They apply to every container with the transform `mask`. */
  permissions: Array<string>;
  /** Access rules: permissions per container, with the transform applied to the data. */
  rules: Array<AccessRule>;
  /** Origins whose pages may use its key in a browser. Absent if every origin may. */
  allowed_origins?: Array<string>;
  /** The application that created it. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** The application that last changed it. Absent if it was never changed. */
  modified_by?: string;
  /** When it was last changed. Absent if it was never changed. */
  modified_at?: string;
  /** When it expires: from then on it is treated as deleted. Absent if it never expires. */
  expires_at?: string;
  /** When one of its keys or sessions was last used, to the minute. Absent if never. */
  last_used_at?: string;
  /** The key. It is returned only here and cannot be retrieved later: only a hash is stored. */
  key: string;
}

export interface AccessRule {
  /** Purpose of the rule. */
  description?: string;
  /** Among the matching rules, the one with the lowest priority decides. On a tie, the stricter transform decides. */
  priority: number;
  /** Applications only, and required there: the rule matches tokens in this container and below. A management application may omit it to match all tokens. */
  container?: string;
  /** Sessions only, and required there: the rule matches tokens that meet all conditions. */
  conditions?: Array<AccessRuleCondition>;
  /** How much of the data is returned. `redact`: no data. `mask`: the masked value, or no data if the token has no mask. `reveal`: the plaintext. */
  transform: 'redact' | 'mask' | 'reveal';
  /** Permissions that the rule grants. */
  permissions: Array<string>;
}

export interface AccessRuleCondition {
  /** Attribute of the token. */
  attribute: 'id' | 'container';
  /** Containers are compared by whole segments, ignoring case: `starts_with` `/pci/` matches `/pci/high/`, but not `/pci-other/`. */
  operator: 'starts_with' | 'equals';
  /** Value to compare with. For `container`, a path such as `/pci/high/`. */
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
  /** Display name, without control characters or bidirectional control characters. */
  name: string;
  /** `private`: for backends that can store a key secretly. `public`: for browsers and mobile apps. `management`: for managing the service. */
  type: 'private' | 'public' | 'management';
  /** Permissions without a rule. They apply to every container with the transform `mask`. Required if there are no rules. */
  permissions?: Array<string>;
  /** Access rules: which permissions apply to which tokens, and how much of the data is returned. Required if there are no permissions. */
  rules?: Array<AccessRule>;
  /** Public applications only: origins whose pages may use its key and the keys of its sessions in a browser, such as `https://shop.example`. If absent or empty, every origin may. */
  allowed_origins?: Array<string>;
  /** When the application expires. Must be in the future. If absent, it never expires. */
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
  /** Unique identifier of the application. */
  id: string;
  /** The tenant that the application belongs to. */
  tenant_id: string;
  /** Display name. */
  name: string;
  /** `private`: for backends that can store a key secretly. `public`: for browsers and mobile apps. `management`: for managing the service. */
  type: 'private' | 'public' | 'management';
  /** Permissions of its keys, without a rule. They apply to every container with the transform `mask`. */
  permissions: Array<string>;
  /** Access rules: permissions per container, with the transform applied to the data. */
  rules: Array<AccessRule>;
  /** Origins whose pages may use its key in a browser. Absent if every origin may. */
  allowed_origins?: Array<string>;
  /** The application that created it. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** The application that last changed it. Absent if it was never changed. */
  modified_by?: string;
  /** When it was last changed. Absent if it was never changed. */
  modified_at?: string;
  /** When it expires: from then on it is treated as deleted. Absent if it never expires. */
  expires_at?: string;
  /** When one of its keys or sessions was last used, to the minute. Absent if never. */
  last_used_at?: string;
}

export interface ApplicationUpdate {
  /** Display name, without control characters or bidirectional control characters. */
  name: string;
  /** Permissions without a rule. They apply to every container with the transform `mask`. Required if there are no rules. */
  permissions?: Array<string>;
  /** Access rules: which permissions apply to which tokens, and how much of the data is returned. Required if there are no permissions. */
  rules?: Array<AccessRule>;
  /** Public applications only: origins whose pages may use its key and the keys of its sessions in a browser. If absent, they are not changed; if empty, every origin may. */
  allowed_origins?: Array<string>;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  id?: string;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  tenant_id?: string;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  type?: 'private' | 'public' | 'management';
  /** Read-only. May be sent unchanged; a different value is rejected. */
  created_by?: string;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  created_at?: string;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  modified_by?: string;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  modified_at?: string;
  /** Read-only. May be sent unchanged; a different value is rejected. */
  expires_at?: string;
  /** Read-only. Any value is ignored, since it changes with every use. */
  last_used_at?: string;
}

export interface ApplicationKeyCreated {
  /** Unique identifier of the key. */
  id: string;
  /** The last four characters of the key, to tell keys apart. */
  ending: string;
  /** The application that created it. Absent if unknown. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** When it was last used, to the minute. Absent if never. */
  last_used_at?: string;
  /** The key. It is returned only here and cannot be retrieved later: only a hash is stored. */
  key: string;
}

export interface ApplicationKeys {
  /** At most 3. */
  data: Array<ApplicationKey>;
}

export interface ApplicationKey {
  /** Unique identifier of the key. */
  id: string;
  /** The last four characters of the key, to tell keys apart. */
  ending: string;
  /** The application that created it. Absent if unknown. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** When it was last used, to the minute. Absent if never. */
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
  /** The permission. */
  permission: string;
  /** The container, in lower case. `/` for permissions without one. May stand for containers below it if there were many. */
  container: string;
  /** When it was last used in this container, to the minute. */
  last_used_at: string;
}

export interface UnusedGrant {
  /** Number of the rule, from 1, or `permissions` for the permissions without a rule. */
  rule: number | 'permissions';
  /** The granted permission. */
  permission: string;
  /** The container of the grant, including those below. */
  container: string;
}

export interface SessionCreated {
  /** Key of the session, for the browser that created it. It is returned only here. */
  session_key: string;
  /** Send it to your backend, which uses it to authorize the session. It works once. */
  nonce: string;
  /** When the session expires, authorized or not. */
  expires_at: string;
}

export interface SessionAuthorize {
  /** The `nonce` from the response of `POST /sessions`. */
  nonce: string;
  /** Permissions without a rule. They apply to every container with the transform `mask`. Required if there are no rules. */
  permissions?: Array<string>;
  /** Access rules: which permissions apply to which tokens, and how much of the data is returned. Required if there are no permissions. */
  rules?: Array<AccessRule>;
  /** When the session expires. May be earlier or later than the default, up to the maximum lifetime and the expiry of its application. */
  expires_at?: string;
}

export interface SessionPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<Session>;
}

export interface Session {
  /** Unique identifier of the session. */
  id: string;
  /** The tenant that the session belongs to. */
  tenant_id: string;
  /** The public application whose key created it. */
  application_id: string;
  /** `waiting`: not authorized yet, so it has no access. `authorized`: its nonce has been used. */
  state: 'waiting' | 'authorized';
  /** Permissions without a rule. Empty until the session is authorized. */
  permissions: Array<string>;
  /** Access rules. Empty until the session is authorized. */
  rules: Array<AccessRule>;
  /** When it was created. */
  created_at: string;
  /** When it was authorized. Absent until then. */
  authorized_at?: string;
  /** The application that authorized it. Absent until then. */
  authorized_by?: string;
  /** Whether the session is limited to the current access of the key that authorized it. */
  ceiling: boolean;
  /** When it expires. */
  expires_at: string;
}

export interface Token {
  /** Identifier of the token, unique within the tenant. */
  id: string;
  /** The tenant that the token belongs to. */
  tenant_id: string;
  /** Type of the token, such as `card`. */
  type: string;
  /** Path of the container. Access rules refer to it. */
  container: string;
  /** The plaintext with the transform `reveal`, the masked value with `mask`, absent with `redact`. */
  data?: unknown;
  /** The mask template. */
  mask?: unknown;
  /** Unencrypted names and values. */
  metadata?: Record<string, string>;
  /** The application that created it. */
  created_by?: string;
  /** When it was created. */
  created_at: string;
  /** The application that last changed it. Absent if it was never changed. */
  modified_by?: string;
  /** When it was last changed. Absent if it was never changed. */
  modified_at?: string;
  /** When it expires: from then on it is treated as deleted. Absent if it never expires. */
  expires_at?: string;
}

export interface TokenCreate {
  /** Type of the token, such as `card`: lower-case letters, digits, `-` and `_`. */
  type?: string;
  /** Path of the container, such as `/customers/42/`. Access rules refer to it. */
  container?: string;
  /** The sensitive data: any JSON except null. Stored encrypted. */
  data: unknown;
  /** Template of the masked value: Liquid outputs in a string, object or list, such as `{{ data.number | reveal_last: 4 }}`. Callers with the transform `mask` get the rendered value instead of the data. */
  mask?: string | Record<string, unknown> | Array<unknown>;
  /** Names and values for filtering lists. Stored unencrypted. */
  metadata?: Record<string, string>;
  /** When the token expires. Must be in the future. If absent, it never expires. */
  expires_at?: string;
  /** Identifier of the token: 3 to 200 characters of `A-Za-z0-9._:-`. If absent, one is generated. */
  id?: string;
}

export interface TokenPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<Token>;
}

export interface TokenPatch {
  /** New type. `null` sets the default. */
  type?: string | null;
  /** New container. `null` sets the default. */
  container?: string | null;
  /** New data. An object is merged into existing object data. */
  data?: unknown;
  /** New mask. `null` removes it. */
  mask?: unknown;
  /** Entries to set. An entry with the value `null` is removed; `null` removes all. */
  metadata?: Record<string, unknown> | null;
  /** New expiry, in the future. `null` removes it. */
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
  /** Unique identifier of the tenant. */
  id: string;
  /** Display name. */
  name: string;
  /** When it was created. */
  created_at: string;
  /** Number of applications. Absent if there are too many to count. */
  applications?: number;
}

export interface LogEntryPage {
  pagination: Pagination;
  /** The entries. */
  data: Array<LogEntry>;
}

export interface LogEntry {
  /** Unique identifier of the entry. */
  id: string;
  /** The tenant that the entry belongs to. */
  tenant_id?: string;
  /** When it happened. */
  at: string;
  /** Who made the request. */
  actor: {
    /** Type of the actor. `unknown`: the entry was altered in the database and cannot be read. */
    kind: 'application' | 'session' | 'operator' | 'anonymous' | 'unknown';
    /** Id of the application or session. */
    id?: string;
    /** The application, or the application of the session. */
    application_id?: string;
  };
  /** The operation, such as `application.update`. */
  operation: string;
  /** The resource that the operation was about. */
  entity?: {
    /** Type of the resource. */
    kind: string;
    /** Id of the resource. */
    id: string;
  };
  /** `success`: the operation was performed. `denied`: the key was valid, but not allowed to. `failed`: the key was not valid; such entries belong to no tenant. */
  result: 'success' | 'denied' | 'failed';
  /** The error code, if the operation did not succeed. */
  reason?: string;
  /** Where the request came from, if known. */
  from: {
    /** IP address. */
    ip?: string;
    /** `User-Agent` header. */
    user_agent?: string;
  };
  /** Id of the request. */
  request_id?: string;
  /** Id of the trace, from the `traceparent` header. */
  trace_id?: string;
  /** Updates only: the changed fields with the old and new values. Encrypted data is listed without values. */
  difference?: Record<
    string,
    {
      from?: unknown;
      to?: unknown;
    }
  >;
  /** Number of equal events that this entry aggregates. Absent if it is one. */
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
        /** Only entries of this application or session. */
        actor?: string;
        /** Only entries about the resource with this id. */
        entity?: string;
        /** Only this operation, such as `application.update`. */
        operation?: string;
        /** Only entries with this result. */
        result?: 'success' | 'denied' | 'failed';
        /** Only entries at or after this time. */
        from?: string;
        /** Only entries before this time. */
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
