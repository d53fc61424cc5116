/** Where the console begins. */

import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import { applyTheme } from './data/theme.ts'
import { startSession } from './session/session.ts'
import './styles.css'

applyTheme()
void startSession()
const root = document.getElementById('root')
if (root) createRoot(root).render(<App />)
