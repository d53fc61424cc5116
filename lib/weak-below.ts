/** The scale of an embedder: the score below which a hit says hardly more about a question than chance does. */

interface Embedder {
  /** A vector of length 1 for each text. */
  embed(texts: string[]): Promise<ArrayLike<number>[]>
}

/** The score below which hits of the question with this vector are weak. */
export type WeakBelow = (vector: ArrayLike<number>) => number

/** What a question scores with them is noise: they are about everyday matters, which no fleet is asked about. */
const unrelated = [
  'The tomatoes in the greenhouse are ripe and should be picked this week.',
  'Our accountant sends the tax return in March, as she did last year.',
  'The museum shows paintings of the nineteenth century until autumn.',
  'A new tyre for the bicycle was ordered; the shop calls when it is there.',
  'The dog next door barks at the postman every morning.',
  'Glaciers in the mountains have lost a third of their ice since 1980.',
  'The choir rehearses on Thursdays in the hall behind the church.',
  'Flour, eggs and milk are mixed first, then the butter is added.',
  'The lawyer found a mistake in the second paragraph of the contract.',
  'The telescope was cleaned and shows the rings of Saturn again.',
  'Two carpenters repaired the roof of the barn before the storm.',
  'Meeting moved to Friday',
  'Kitchen too warm: window left open',
  'Holiday plan of the sales team',
  'Translation of the novel finished',
  'Coffee machine broken',
  'The tomatoes in the greenhouse are ripe and should be picked this week. When they are left on the plant for too long, the skin bursts and the wasps come. What is not eaten at once can be cooked with onions and a little sugar, filled into clean jars and kept in the cellar until the spring. If the jars are closed while they are hot, nothing else is needed.',
  'In the nineteenth century painters left their studios and worked in the open air, because they wanted to show the light as it is at one hour of the day. The museum has forty of their pictures and shows them until the autumn. Visitors who come in the morning have the rooms for themselves; how the pictures were made is said in a film of ten minutes.',
  'A dog that barks at everybody is usually afraid. It helps to lead it past other people at some distance, to stay calm, and to praise it whenever it stays quiet. Do not shout, and do not pull at the leash, since both tell the dog that there is a reason to be afraid. After a few weeks the distance can be made smaller.',
  'Glaciers in the mountains have lost a third of their ice since 1980. When the ice melts, the rivers below have more water for some decades and then less, which matters to those who grow fruit in the valleys. How fast it goes is measured every summer with poles that are set into the ice, and from the air.',
  'For the dough flour, eggs and milk are mixed first, then the butter is added. It must rest for an hour in a cool place. What you put on it is up to you: apples with cinnamon, plums, or cheese. The oven should be hot before the cake goes in; after forty minutes it is done, if a needle comes out clean.',
  'The choir rehearses on Thursdays in the hall behind the church. New voices are welcome, above all tenors, and nobody needs to read music. Before a concert there are two longer rehearsals with the orchestra, which take place on a Saturday. Who cannot come tells the conductor by the day before.',
  'Two carpenters repaired the roof of the barn before the storm. The old beams were kept where they could carry the load; where they could not, oak of the same age was used, which the owner had bought from a mill that was torn down. It is not cheap, but it lasts, and the barn looks as it did a hundred years ago.',
  'The tenant may use the garden together with the other tenants. Pets are allowed unless they disturb the neighbours. Rent is due on the third working day of each month. If something is broken, the tenant tells the owner at once; who has to pay for it depends on how it came to be broken and on what it costs.',
  'With a telescope of this size one sees the rings of Saturn, the bands of Jupiter and thousands of stars that the eye alone does not see. It should stand outside for half an hour before it is used, so that the mirror has the temperature of the air. The moon is best when it is half, since then its mountains throw long shadows.',
  'The bicycle needs new tyres, and the chain should be cleaned and oiled after every ride in the rain. Check the brakes before you go down a mountain. Whoever rides at night needs a lamp at the front and a red one at the back. A good lock costs more than one thinks, and less than a bicycle.',
  'She crossed the square without looking back. The letter was in her coat, and she had not opened it, because she knew who had written it and why. When the bells began she stopped, counted them, and went on. Nobody at the station would ask for her name, and the train was not yet there.',
  'Children learn a second language best while they play. They do not ask for rules; they listen, repeat, and are understood, and that is enough. Adults want to know why a sentence is as it is. Both ways lead there, but whoever has to speak on the first day learns faster than those who only read.',
]

/**
 * So many standard deviations above the mean of a question's own noise. Measured with the built-in embedder on notes, docs of
 * software, and Cranfield: 3, 16 and 13 of 100 questions of other fields find a hit above it, all of the field do. A
 * threshold that is the same for all questions was far worse: words that every text has lift some questions more than others.
 */
const deviations = 3
/** After a fault the texts are not embedded again for so long. */
const retryMs = 60_000

const scales = new WeakMap<Embedder, Promise<WeakBelow>>()

/** Embeds the texts with the first call, for all that follow. Rejects with the fault of the embedder. */
export function scaleOf(embedder: Embedder): Promise<WeakBelow> {
  const known = scales.get(embedder)
  if (known) return known
  const measured = measure(embedder)
  scales.set(embedder, measured)
  measured.catch(() => setTimeout(() => scales.delete(embedder), retryMs).unref())
  return measured
}

async function measure(embedder: Embedder): Promise<WeakBelow> {
  const vectors = await embedder.embed(unrelated)
  return (vector) => {
    const scores = vectors.map((one) => cosine(vector, one))
    const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length
    const variance = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length
    return Number((mean + deviations * Math.sqrt(variance)).toFixed(3))
  }
}

/** The cosine, where `b` has length 1: vectors that others made may be longer. */
function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0
  let squares = 0
  for (let n = 0; n < a.length; n++) {
    sum += a[n]! * b[n]!
    squares += a[n]! ** 2
  }
  return sum / Math.sqrt(squares)
}
