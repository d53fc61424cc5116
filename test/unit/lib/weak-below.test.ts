/** The scale of an embedder: measured once, and for each question. */

import { expect, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import type { Embedder } from '#engines/embedder/port.ts'
import { scaleOf } from '#lib/weak-below.ts'

function counted(embed: Embedder['embed']) {
  let calls = 0
  const embedder = {
    embed(texts: string[]) {
      calls += 1
      return embed(texts)
    },
  }
  return { embedder, calls: () => calls }
}

const note = 'The lighthouse is repaired\nIts lamp burns again since Monday.'

test('with the built-in embedder a note answers its question, and not those about something else', async () => {
  const { embed } = openLocalEmbedder()
  const { embedder, calls } = counted(embed)
  const questions = [
    'Is the lighthouse repaired?',
    'zebra quantum',
    'How do I bake bread?',
    'What is the capital?',
  ]
  const [answer, ...asked] = await embed([note, ...questions])
  const scale = await scaleOf(embedder)
  const isWeak = asked.map((question) => {
    const score = question.reduce((sum, component, n) => sum + component * answer![n]!, 0)
    return score < scale(question)
  })
  expect(isWeak).toEqual([false, true, true, true])
  expect(await scaleOf(embedder)).toBe(scale)
  expect(calls()).toBe(1)
})

test('it moves with the scores of the embedder, and not with the length of a vector', async () => {
  const { embed } = openLocalEmbedder()
  const lift = Math.SQRT1_2
  /** Half of each vector is the same for all: scores s become (1 + s) / 2. */
  const lifted = async (texts: string[]) =>
    (await embed(texts)).map((vector) => Float32Array.from([lift, ...vector.map((each) => each * lift)]))
  const question = ['When is the next train to the coast?']
  const [[plain], [high]] = await Promise.all([embed(question), lifted(question)])
  const low = (await scaleOf({ embed }))(plain!)
  const scale = await scaleOf({ embed: lifted })
  expect(scale(high!)).toBeCloseTo((1 + low) / 2, 2)
  expect(scale(high!.map((each) => each * 7))).toBeCloseTo(scale(high!), 3)
})

test('an embedder that fails is not asked again at once', async () => {
  const { embedder, calls } = counted(() => Promise.reject(new Error('away')))
  for (let n = 0; n < 3; n++) await expect(scaleOf(embedder)).rejects.toThrow('away')
  expect(calls()).toBe(1)
})
