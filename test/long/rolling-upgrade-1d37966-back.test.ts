import { rollingUpgrade } from './rolling-upgrade.promises.ts'

rollingUpgrade('1d37966', 'back')
