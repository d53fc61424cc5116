/** A state as a shape and a word: never by colour alone. */

export type Tone = 'ok' | 'warn' | 'bad' | 'idle' | 'busy'

const shapes: Record<Tone, string> = { ok: '●', warn: '▲', bad: '✕', idle: '○', busy: '◐' }

export function Status({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span className={`status ${tone}`}>
      <span aria-hidden="true">{shapes[tone]}</span> {children}
    </span>
  )
}
