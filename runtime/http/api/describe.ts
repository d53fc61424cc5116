/** Completes the API description that is made from the routes' schemas: credentials, problems, headers, samples, components. */

import type { FastifyContextConfig } from 'fastify'
import { AppError, type ErrorCode, errorCodes } from '#lib/errors.ts'
import { type ProblemForm, problemContentType, problemOf, problemSchema } from '../problem.ts'
import {
  type Answer,
  type Document,
  liftTitled,
  type Operation,
  operationsOf,
  type Schema,
} from './document.ts'
import { type Credential, headersOf, problemsOf, serverMark } from './facts.ts'
import { curlOf, sampleOf } from './samples.ts'

/** Every answer has these. */
const commonHeaders = {
  'X-Request-Id':
    'Id of the request: the caller’s X-Request-Id (1 to 128 visible ASCII characters), or one made here.',
  traceparent: 'W3C trace context: the caller’s, or one made here.',
}
const retryAfter = { 'Retry-After': 'Seconds to wait: `retryAfter` of the body, rounded up.' }
const authenticate = { 'WWW-Authenticate': 'The kind of credential: `Bearer`.' }
const exampleRequestId = '0190b8a2-7f6e-7c3a-9d51-0f2f6f0f9a11'

/** What a route says of itself, where it is mounted. */
export type RouteFacts = Omit<FastifyContextConfig, 'sample'> & { sample?: string }

/** `routes`: operationId → config of its route. Changes and returns the document. */
export function complete(document: Document, routes: ReadonlyMap<string, RouteFacts>): Document {
  const { components } = document
  Object.assign(components, { headers: {}, examples: {}, securitySchemes: {} })
  const codes = new Set<ErrorCode>()
  for (const [path, method, operation] of operationsOf(document)) {
    const config = routes.get(operation.operationId)!
    const { credential } = config
    operation.security = credential ? [{ [credential.name]: [] }] : []
    if (credential) components.securitySchemes[credential.name] = schemeOf(credential)
    const { requestBody, parameters = [] } = operation
    const takes = { body: requestBody !== undefined, fields: parameters.length > 0 }
    const problems = problemsOf(config, takes)
    addProblems(document, operation, problems, config.problemForm)
    for (const one of problems.values()) for (const code of one) codes.add(code)
    addHeaders(document, operation, problems, headersOf(config))
    const media = operation.requestBody?.content['application/json']
    if (media) media.example ??= sampleOf(media.schema)
    const source = config.sample ?? curlOf(path, method, operation, credential)
    operation['x-codeSamples'] = [{ lang: 'shell', label: 'curl', source }]
  }
  document.paths = liftTitled(document.paths, components.schemas) as Document['paths']
  liftTitled(
    problemSchema(Object.keys(errorCodes).filter((code) => codes.has(code as ErrorCode))),
    components.schemas,
  )
  document.servers = [{ url: serverMark }]
  return document
}

function schemeOf({ description, bearerFormat }: Credential) {
  return { type: 'http', scheme: 'bearer', bearerFormat, description }
}

/** Status → codes. */
type Problems = ReturnType<typeof problemsOf>

function addProblems(
  { components }: Document,
  operation: Operation,
  problems: Problems,
  form: ProblemForm | undefined,
): void {
  const contentType = form?.contentType ?? problemContentType
  const schema = (form?.schema ?? { $ref: '#/components/schemas/Problem' }) as Schema
  for (const [status, codes] of problems) {
    const examples: Record<string, unknown> = {}
    for (const code of codes) {
      const usual = form || status === errorCodes[code].status ? code : `${code}_${status}`
      const name = form ? `${form.schema.title}_${usual}` : usual
      const example = exampleOf(code, status)
      const value = form ? form.of(example) : example
      components.examples[name] ??= { summary: errorCodes[code].title, value }
      examples[name] = { $ref: `#/components/examples/${name}` }
    }
    const own: Answer | undefined = operation.responses[status]
    operation.responses[status] = {
      description: [own?.description, ...codes.map(sentenceOf)].filter(Boolean).join('\n\n'),
      content: { ...own?.content, [contentType]: { schema, examples } },
    }
  }
}

function sentenceOf(code: ErrorCode): string {
  const { title, meaning } = errorCodes[code]
  return `\`${code}\`: ${meaning ?? `${title}.`}`
}

function exampleOf(code: ErrorCode, status: number) {
  const fields = { path: '/points/0/vector', message: 'must have 1536 numbers' }
  const fault = new AppError(code, errorCodes[code].action.replaceAll('`', ''), {
    statusCode: status,
    ...(errorCodes[code].waits ? { retryAfter: 1 } : {}),
    ...(code === 'validation_failed' ? { errors: [fields] } : {}),
  })
  return problemOf(fault, exampleRequestId)
}

function addHeaders(
  { components }: Document,
  operation: Operation,
  problems: Problems,
  own: Readonly<Record<string, string>>,
): void {
  for (const [status, answer] of Object.entries(operation.responses)) {
    const waits = problems.get(Number(status))?.some((code) => errorCodes[code].waits)
    const headers: Record<string, string> = {
      ...commonHeaders,
      ...(status === '401' ? authenticate : own),
      ...(waits ? retryAfter : {}),
    }
    answer.headers = {}
    for (const [name, description] of Object.entries(headers)) {
      components.headers[name] ??= { description, schema: { type: 'string' } }
      answer.headers[name] = { $ref: `#/components/headers/${name}` }
    }
  }
}
