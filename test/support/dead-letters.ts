/** One dead letter with its value, for tests that look at it or replay it. */

import { type DeadLetter, type DeadLetterParts, readDeadLetters } from '#runtime/consume/dead-letters.ts'

export async function readDeadLetter(
  parts: DeadLetterParts,
  { topic, key }: Pick<DeadLetter, 'topic' | 'key'>,
): Promise<DeadLetter> {
  const letter = (await readDeadLetters(parts, topic, [key])).get(key)
  if (!letter) throw new Error('no such dead letter')
  return letter
}
