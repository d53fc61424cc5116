/** Finds a topic that an operator names. */

import { AppError } from '#lib/errors.ts'
import { catalog, topicByName } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'

/** The topic of this name. Throws AppError `not_found` that lists the names there are. */
export function findTopic(name: string): Topic {
  const topic = topicByName(name)
  if (topic) return topic
  const names = catalog.map((one) => one.name).join(', ')
  throw new AppError('not_found', `There is no topic named ${name}. There are: ${names}.`)
}
