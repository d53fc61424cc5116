/** The history of a chat as text in front of its last message, for requests that name no session. */

export interface Turn {
  role: string
  text: string
}

const beginning = 'The conversation so far, the oldest message first:'
const omission = '> (Earlier messages are left out.)'
const ending = 'The message to answer:'

/**
 * Instructions come first, then the newest turns that fit into `bytesMax`; undefined where there is nothing to say. Every line is
 * quoted: names of agents in quoted lines are no mentions, so that nobody joins again with each request.
 */
export function historyText(turns: readonly Turn[], bytesMax: number): string | undefined {
  const said = turns.filter(({ text }) => text.trim() !== '')
  if (said.length === 0) return undefined
  const isInstruction = ({ role }: Turn) => role === 'system' || role === 'developer'
  const instructions = said.filter(isInstruction).map(quoted)
  const talk = said.filter((turn) => !isInstruction(turn)).map(quoted)
  // Room for the lines around them.
  let room = bytesMax - 256
  const kept: string[] = []
  const take = (turn: string, to: (turn: string) => void) => {
    const bytes = Buffer.byteLength(turn) + 3
    if (bytes > room) return false
    room -= bytes
    to(turn)
    return true
  }
  const shown = instructions.filter((one) => take(one, () => {}))
  while (talk.length > 0 && take(talk.at(-1)!, (turn) => kept.unshift(turn))) talk.pop()
  const isWhole = talk.length === 0 && shown.length === instructions.length
  const lines = [...shown, ...(isWhole ? [] : [omission]), ...kept]
  return `${beginning}\n\n${lines.join('\n>\n')}\n\n${ending}`
}

function quoted({ role, text }: Turn): string {
  const lines = `${role}: ${text}`.split('\n')
  return lines.map((line) => `> ${line}`).join('\n')
}
