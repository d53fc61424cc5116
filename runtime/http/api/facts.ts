/**
 * What routes and their scopes say of themselves for the API description, in addition to their schemas; and schemas that check
 * and serialise in one way and are described in another.
 */

import type { FastifyContextConfig, FastifyInstance } from 'fastify'
import type { TSchema } from 'typebox'
import { budgets } from '#lib/budgets.ts'
import { type ErrorCode, errorCodes } from '#lib/errors.ts'
import type { ProblemForm } from '../problem.ts'

/** A code with its usual status, or with one of its others. */
type ErrorCase = ErrorCode | { code: ErrorCode; status: number }

export interface Credential {
  /** Key of the security scheme. */
  name: string
  description: string
  /** Shape of the Bearer credential. */
  bearerFormat: string
  /** The shell variable that holds it in the requests of the reference page. */
  variable: string
}

interface ScopeFacts {
  /** What its requests must carry. */
  credential?: Credential
  /** Codes that each of its routes may answer. */
  problems?: readonly ErrorCase[]
  /** Header → description, of its answers to known callers: 401 goes without. */
  headers?: Readonly<Record<string, string>>
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Codes that the route answers by itself. What its scope or the kit answers (a faulty body, a missing key, a limit)
     * need not be named. Required of described routes, if only as an empty list.
     */
    problems?: readonly ErrorCase[]
    /**
     * A shell command for the reference page in place of the one that is made from the schemas; see `serverMark`. A function
     * gets what the paths begin with where the route is mounted: '' or '/api/v1'.
     */
    sample?: string | ((prefix: string) => string)
    /** Default: problem documents. */
    problemForm?: ProblemForm
    /** Kept by `describeScope`. */
    scopes?: readonly ScopeFacts[]
    /** Credential of the innermost scope that asks for one. */
    credential?: Credential
  }
}

/** In samples and descriptions: the address that the description was asked at, without a slash at its end. */
export const serverMark = '{the-address-asked}'

/** Adds to the description of every route of `scope` that is registered later. Behind a credential bodies may be longer. */
export function describeScope(scope: FastifyInstance, facts: ScopeFacts): void {
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, scopes: [...(route.config?.scopes ?? []), facts] }
    if (!facts.credential) return
    route.config.credential = facts.credential
    // Where nobody knows the caller the limit of the app stays.
    route.bodyLimit ??= budgets.http.callerBodyBytesMax
  })
}

export function headersOf(config: FastifyContextConfig): Readonly<Record<string, string>> {
  return Object.assign({}, ...(config.scopes ?? []).map(({ headers }) => headers))
}

/** What any request may be answered. */
const always: ErrorCase[] = [
  'bad_request',
  { code: 'bad_request', status: 408 },
  { code: 'bad_request', status: 431 },
  'internal_error',
  'overloaded',
  'shutting_down',
]
const ofBodies: ErrorCase[] = ['invalid_json', 'payload_too_large', 'unsupported_media_type']

/** Status → codes, each once, in the order of the catalogue. */
export function problemsOf(
  config: FastifyContextConfig,
  takes: { body: boolean; fields: boolean },
): Map<number, ErrorCode[]> {
  const cases = [
    ...always,
    ...(takes.body ? ofBodies : []),
    ...(takes.body || takes.fields ? (['validation_failed'] as const) : []),
    ...(config.scopes ?? []).flatMap(({ problems = [] }) => problems),
    ...(config.problems ?? []),
  ]
  const order = Object.keys(errorCodes)
  const found = new Map<number, Set<ErrorCode>>()
  for (const one of cases) {
    const { code, status: usual } =
      typeof one === 'string' ? { code: one, status: errorCodes[one].status } : one
    const status = config.problemForm?.statusOf(code, usual) ?? usual
    found.set(status, (found.get(status) ?? new Set()).add(code))
  }
  return new Map(
    [...found].map(([status, codes]) => [
      status,
      [...codes].sort((a, b) => order.indexOf(a) - order.indexOf(b)),
    ]),
  )
}

/** Cases whose status the catalogue does not know. */
export function unknownCases(config: FastifyContextConfig): string[] {
  return (config.problems ?? []).flatMap((one) => {
    if (typeof one === 'string') return []
    const { status, alsoStatus } = errorCodes[one.code]
    return one.status === status || alsoStatus?.[one.status] ? [] : [`${one.code} with ${one.status}`]
  })
}

const key = 'x-shown-as'

/**
 * Options for a schema: the API description shows `shown` in its place. For what the handler checks by its own code (vectors
 * are checked in the pass that packs them) or answers with a code of its own.
 */
export function shownAs(shown: TSchema): Record<string, TSchema> {
  return { [key]: shown }
}

/** A copy of the schema as readers of the description see it, without the `rule` that faults are worded with. */
export function asShown<T>(schema: T): T {
  const shown = (name: string, value: unknown) =>
    name === 'rule' && typeof value === 'string'
      ? undefined
      : ((value as Record<string, unknown>)?.[key] ?? value)
  return JSON.parse(JSON.stringify(schema, shown)) as T
}
