/** Writes answers by their route's schema, as fastify does by itself, but compiled at a route's first answer. */

import buildSerializer from 'fast-json-stringify'
import type { FastifySerializerCompiler } from 'fastify'

/** A start does not wait for the schemas of every route. */
export const createSerializer: FastifySerializerCompiler<object> = ({ schema }) => {
  let serialize: ((answer: unknown) => string) | undefined
  return (answer: unknown) => {
    serialize ??= buildSerializer(schema)
    return serialize(answer)
  }
}
