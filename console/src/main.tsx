import {render} from 'preact';

import {App} from './app';
import {startRouter} from './router';
import {readSession} from './session';
import {startSettings} from './settings';

startSettings();
startRouter();
void readSession();
const root = document.getElementById('root');
if (root) render(<App />, root);
