/** Names of collections in, 404 for those that there are not out. */

import { type CollectionName, collections, isCollection } from '#engines/vectors/collections.ts'
import { AppError } from '#lib/errors.ts'

export function requireCollection(name: string): CollectionName {
  if (isCollection(name)) return name
  throw collectionNotFound(name)
}

export function collectionNotFound(name: string): AppError {
  const cut = name.length > 64 ? `${name.slice(0, 64).toWellFormed()}…` : name
  return new AppError(
    'collection_not_found',
    `There is no collection named ${JSON.stringify(cut)}: there are ${collections.join(', ')}.`,
  )
}
