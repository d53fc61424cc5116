/** Answers in the form of an interface: routes answer their data bare, and the interface may put it into an envelope. */

import type { FastifyInstance } from 'fastify'
import type { TSchema } from 'typebox'

export interface AnswerForm {
  schemaOf(data: TSchema): TSchema
  answer(data: unknown): object
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Kept by `wrapAnswers`. */
    form?: AnswerForm
  }
}

/** Every successful JSON answer of routes that are registered later in `scope`, and its schema, get this form. */
export function wrapAnswers(scope: FastifyInstance, form: AnswerForm): void {
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, form }
    const { response } = (route.schema ?? {}) as { response?: Record<string, TSchema> }
    if (!response) return
    const wrapped = Object.entries(response).map(([status, schema]) => [
      status,
      isJson(status, schema) ? form.schemaOf(schema) : schema,
    ])
    route.schema = { ...route.schema, response: Object.fromEntries(wrapped) }
  })
  // Not called for streams, texts and empty answers.
  scope.addHook('preSerialization', (_request, reply, payload, done) => {
    done(null, reply.statusCode < 400 ? form.answer(payload) : payload)
  })
}

function isJson(status: string, schema: object): boolean {
  return status.startsWith('2') && !('content' in schema) && (schema as { type?: unknown }).type !== 'null'
}
