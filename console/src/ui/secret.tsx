/** A secret that is shown once: the dialog closes only after it was copied, saved, or said to be kept. */

import { useState } from 'react'
import { CopyButton } from './copyable.tsx'
import { Dialog } from './dialog.tsx'

export interface Secret {
  title: string
  /** Says what the secret is for. */
  text: string
  value: string
  /** The name under which it is saved. */
  file: string
}

export function SecretDialog({ secret, onClose }: { secret: Secret; onClose: () => void }) {
  const [isKept, setKept] = useState(false)
  const { title, text, value, file } = secret
  function save() {
    const url = URL.createObjectURL(new Blob([value], { type: 'application/octet-stream' }))
    const link = document.createElement('a')
    link.href = url
    link.download = file
    link.click()
    URL.revokeObjectURL(url)
    setKept(true)
  }
  return (
    <Dialog title={title} onClose={onClose} closable={isKept}>
      <p>{text} It is shown here once, and kept nowhere.</p>
      <pre className="secret">{value}</pre>
      <div className="buttons">
        <CopyButton text={value} onCopied={() => setKept(true)} />
        <button type="button" onClick={save}>
          Download
        </button>
      </div>
      <label className="check">
        <input type="checkbox" checked={isKept} onChange={(event) => setKept(event.target.checked)} /> I have
        it
      </label>
      <div className="buttons">
        <button type="button" className="primary" disabled={!isKept} onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  )
}
