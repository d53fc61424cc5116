/** Identifiers that people copy. */

import { useState } from 'react'

/** `shown`: only so many characters; the tooltip and the copy hold the whole text. */
export function Copyable({ text, shown }: { text: string; shown?: number }) {
  const short = shown !== undefined && text.length > shown ? `${text.slice(0, shown)}…` : text
  return (
    <span className="copyable">
      <code title={text}>{short}</code>
      <CopyButton text={text} label={`Copy ${short}`} />
    </span>
  )
}

export function CopyButton({
  text,
  label,
  children = 'Copy',
  onCopied,
}: {
  text: string
  label?: string
  children?: string
  onCopied?: () => void
}) {
  const [said, setSaid] = useState('')
  async function copy() {
    try {
      await navigator.clipboard.writeText(text)
      setSaid('Copied')
      onCopied?.()
    } catch {
      setSaid('Not allowed here')
    }
    setTimeout(() => setSaid(''), 2_000)
  }
  return (
    <button type="button" className="quiet" aria-label={label} onClick={() => void copy()}>
      <span aria-live="polite">{said || children}</span>
    </button>
  )
}
