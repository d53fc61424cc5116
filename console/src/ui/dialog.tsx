/** Dialogs on the browser's own element: it keeps the focus inside, closes on Escape and gives the focus back. */

import { type ReactNode, useEffect, useId, useRef } from 'react'

interface DialogProps {
  title: string
  onClose: () => void
  /** False: only its own buttons close it, for a secret that is shown once. */
  closable?: boolean
  children: ReactNode
}

/** Shown as long as it is rendered. */
export function Dialog({ title, onClose, closable = true, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = element.current
    const opener = document.activeElement
    dialog?.showModal()
    return () => {
      dialog?.close()
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [])
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        if (closable) onClose()
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}
